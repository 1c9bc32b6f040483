import type { DatabaseSync } from 'node:sqlite'
import { select } from './read-books.ts'

/** Where the text of each full-text table comes from. */
const SOURCES = {
  clients_fts: { columns: 'text, digits', source: 'search_text, phone_digits', table: 'clients' },
  catalog_items_fts: { columns: 'text', source: 'search_text', table: 'catalog_items' },
  invoice_items_fts: { columns: 'text', source: 'search_text', table: 'invoice_items' },
}

/** Builds each full-text table anew from its rows and compares what the two hold, trigram by trigram. */
export function compareIndexes(db: DatabaseSync): string[] {
  return Object.entries(SOURCES).flatMap(([name, { columns, source, table }]) => {
    const [made] = select<{ sql: string }>(db, `SELECT sql FROM sqlite_schema WHERE name = '${name}'`)
    if (!made) return [`there is no ${name}`]
    db.exec(`${made.sql.replace(name, `temp.fresh_${name}`)};
      INSERT INTO temp.fresh_${name} (rowid, ${columns})
        SELECT slot << 53 | t.id, ${source} FROM ${table} AS t JOIN companies ON companies.id = company_id WHERE deleted = 0;
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
