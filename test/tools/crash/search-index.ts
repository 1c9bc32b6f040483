import type { DatabaseSync } from 'node:sqlite'
import { select } from './read-state.ts'

/** A row for each character of `text`: `key` counts them from 0. */
const charactersOf = (text: string) =>
  `json_each('[' || rtrim(replace(hex(zeroblob(length(${text}))), '00', '0,'), ',') || ']')`

const spaced = (text: string) =>
  `(SELECT char(30) || group_concat(substr(${text}, key + 1, 1), char(30)) || char(30) FROM ${charactersOf(text)})`

/** Each full-text table, the table and the text that it indexes, and whether it has deleted rows. */
const SOURCES = [
  ['clients_fts', 'clients', 'search_text || char(31) || phone_digits', false],
  ['catalog_items_fts', 'catalog_items', 'search_text', false],
  ['invoice_items_fts', 'invoice_items', 'search_text', true],
  ['orders_fts', 'orders', 'title_key || char(31) || number_key', true],
  ['client_names_fts', 'clients', 'company_name_key', true],
] as const

/** Builds a copy of each full-text table from its rows and compares the two, trigram by trigram. */
export function compareIndexes(db: DatabaseSync): string[] {
  return SOURCES.flatMap(([name, table, text, hasAll]) => {
    // Digits are searched on their own.
    const whole = name === 'clients_fts' ? 'search_text, phone_digits' : text
    const columns = name === 'clients_fts' ? 'text, digits, spaced' : 'text, spaced'
    const [made] = select<{ sql: string }>(db, `SELECT sql FROM sqlite_schema WHERE name = '${name}'`)
    if (!made) return [`there is no ${name}`]
    db.exec(`${made.sql.replace(name, `temp.fresh_${name}`)};
      INSERT INTO temp.fresh_${name} (rowid, ${columns})
        SELECT slot << 53 | t.id, ${whole}, ${spaced(`(${text})`)}
        FROM main.${table} AS t JOIN main.companies AS c ON c.id = company_id WHERE ${hasAll ? 'true' : 'deleted = 0'};
      CREATE VIRTUAL TABLE temp.old_${name} USING fts5vocab(main, ${name}, instance);
      CREATE VIRTUAL TABLE temp.new_${name} USING fts5vocab(temp, fresh_${name}, instance)`)
    const only = (one: string, other: string) =>
      select<{ rows: number }>(
        db,
        `SELECT count(DISTINCT doc) AS rows FROM (SELECT * FROM temp.${one}_${name} EXCEPT SELECT * FROM temp.${other}_${name})`,
      )[0]?.rows ?? 0
    const [stale, missing] = [only('old', 'new'), only('new', 'old')]
    return stale + missing === 0 ? [] : [`${name} is wrong: ${missing} rows lack words, ${stale} have words too many`]
  })
}
