import { getTableColumns, type SQL, sql } from 'drizzle-orm'
import { orm, type Statements, statement } from '../../kernel/db/client.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { columnsOf, named, tableOf } from '../../kernel/db/tables.ts'
import { chunksOf, lengthOf, type Row, STATEMENT_CHARACTERS, type Value } from './format.ts'
import { ofCompany } from './queries.ts'
import { updateOf } from './restore-queries.ts'
import type { PartPlan, TablePlan } from './tables.ts'

/**
 * Changes written by triggers during a copy are numbered from here and removed at once. A row of `companies` with this
 * last change belongs to a copy, so its slot in the full-text tables is its own.
 */
export const COPY_CHANGES = 2 ** 52
/** Limits the stamps of one page, so that they are a text of less than 2,000,000 bytes. */
const STAMPS = 4_000

export type Key = Value[]
type Statement = Statements[number]
/** A table, or the parts of another one's rows. */
export type Copied = Pick<TablePlan, 'table' | 'key'> & Partial<TablePlan> & Partial<PartPlan>

/** Compares keys as texts. */
export const textOf = (key: readonly Value[]) => JSON.stringify(key)

const list = (parts: readonly SQL[]) => sql.join([...parts], sql`, `)
const columnNames = (plan: Copied) => columnsOf(plan).map(({ name }) => name)

/** The condition on the rows with these keys. */
export function isAmong(context: CompanyContext, plan: Copied, keys: readonly Key[]): SQL {
  const isOf = ofCompany(context, plan)
  if (plan.key.length === 0) return isOf
  const read = plan.key.map((_, index) => sql.raw(`e.value ->> ${index}`))
  return sql`${isOf} AND (${list(plan.key.map(named))}) IN (
    SELECT ${list(read)} FROM json_each(${JSON.stringify(keys)}) AS e)`
}

/** Selects the stamps of rows: those with some keys, or all after one key, up to another. */
export type Which = { keys: readonly Key[] } | { after: Key | null; until?: Key | null }

/** A page of stamps, and the keys of their rows as texts. */
export interface Stamps {
  keys: string[]
  stamps: string[]
  /** The whole page as one text. */
  text: string
  /** The last key if more may follow. */
  next: Key | null
}

/** Reads one page of stamps. */
export async function readStamps(context: CompanyContext, plan: TablePlan, which: Which): Promise<Stamps> {
  const keys = list(plan.key.map(named))
  const conditions = 'keys' in which ? [isAmong(context, plan, which.keys)] : [ofCompany(context, plan)]
  const compare = (sign: string, key: Key | null | undefined) => {
    if (key && key.length > 0) {
      conditions.push(sql`(${keys}) ${sql.raw(sign)} (${list(key.map((each) => sql`${each}`))})`)
    }
  }
  if ('after' in which) {
    compare('>', which.after)
    compare('<=', which.until)
  }
  const stamp = plan.stamp ?? plan.feed?.version
  const value = stamp ? sql.raw(stamp) : sql`json_array(${list(columnNames(plan).map(named))})`
  const order = plan.key.length > 0 ? sql`ORDER BY ${keys}` : sql``
  const page = sql`SELECT json_array(${keys}) AS key, CAST(${value} AS TEXT) AS stamp FROM ${tableOf(plan.table)}
    WHERE ${sql.join(conditions, sql` AND `)} ${order} LIMIT ${sql.raw(String(STAMPS))}`
  const [[row]] = await context.db.read([
    orm
      .select({
        keys: sql<string>`json_group_array(key)`.as('row_keys'),
        stamps: sql<string>`json_group_array(stamp)`.as('row_stamps'),
      })
      .from(sql`(${page})`),
  ])
  const { keys: keyTexts = '[]', stamps = '[]' } = row ?? {}
  const read: string[] = JSON.parse(keyTexts)
  const last = read.length === STAMPS ? read.at(-1) : undefined
  return {
    keys: read,
    stamps: JSON.parse(stamps),
    text: `${keyTexts} ${stamps}`,
    next: last === undefined ? null : JSON.parse(last),
  }
}

/**
 * The first statement of a transaction that is only for a database where the company is `moved`. In any other state it
 * fails, so a late one of an interrupted move overwrites no newer row.
 */
export const requireMoved = (companyId: number) =>
  statement(
    `SELECT json_extract('{}', 'the company is not moved')
      WHERE NOT EXISTS (SELECT 1 FROM company_guards WHERE company_id = ? AND state = 'moved')`,
    companyId,
  )

export async function writeMoved({ companyId, db }: CompanyContext, statements: readonly Statement[]): Promise<void> {
  await db.writeIdempotent([requireMoved(companyId), ...statements])
}

/** Writes rows of a table into the destination, replacing any with the same keys. */
export async function putRows(context: CompanyContext, plan: Copied, rows: readonly Row[]): Promise<void> {
  const { companyId } = context
  for (const chunk of chunksOf(rows, (row) => row)) {
    const put = plan.isUpdate ? updateOf(context, plan.table, chunk) : upsert(companyId, plan, chunk)
    await writeMoved(context, [
      ...clearUnique(companyId, plan, chunk),
      put,
      statement('DELETE FROM changes WHERE company_id = ?1 AND sequence > ?2', companyId, COPY_CHANGES),
    ])
  }
}

function upsert(companyId: number, plan: Copied, rows: readonly Row[]): Statement {
  const { table, key, sourceId } = plan
  const all: Record<string, { primary: boolean }> = getTableColumns(tableOf(table))
  const ofCompany = 'company_id' in all
  const names = columnNames(plan)
  const targets = names.map((name) => (name === 'id' && sourceId ? sourceId : name))
  // Ids of mail objects are unique over all companies.
  const conflict = [
    ...(ofCompany && !(key[0] === 'id' && all.id?.primary && !sourceId) ? ['company_id'] : []),
    ...(sourceId ? [sourceId] : key),
  ]
  const set = targets.filter((name) => !conflict.includes(name)).map((name) => `"${name}" = excluded."${name}"`)
  const columns = [...(ofCompany ? ['company_id'] : []), ...targets.map((name) => `"${name}"`)].join(', ')
  const where = sourceId ? `WHERE ${sourceId} IS NOT NULL` : ''
  const onConflict = `ON CONFLICT (${conflict.join(', ')}) ${where} DO UPDATE SET ${set.join(', ')}`
  const [row] = rows
  if (rows.length === 1 && row && lengthOf(row) > STATEMENT_CHARACTERS) {
    // A value over the limit of a text is bound by itself.
    const values = names.map((name) => row[name] ?? null)
    const bound = [...(ofCompany ? [companyId] : []), ...values]
    return statement(`INSERT INTO ${table} (${columns}) VALUES (${bound.map(() => '?')}) ${onConflict}`, ...bound)
  }
  const read = names.map((_, index) => `e.value ->> '$[${index}]'`)
  const selected = [...(ofCompany ? ['?2'] : []), ...read].join(', ')
  const text = `INSERT INTO ${table} (${columns}) SELECT ${selected} FROM json_each(?1) AS e WHERE true
    ORDER BY e.key ${onConflict}`
  const json = JSON.stringify(rows.map((each) => names.map((name) => each[name] ?? null)))
  return statement(text, json, ...(ofCompany ? [companyId] : []))
}

/** Clears a unique value that moved from one row to another since it was copied; the first row is copied again. */
function clearUnique(companyId: number, { table, unique }: Copied, rows: readonly Row[]): Statement[] {
  const taken = unique ? rows.filter((row) => row[unique] != null).map((row) => [row.id, row[unique]]) : []
  if (!unique || taken.length === 0) return []
  const text = `UPDATE ${table} SET ${unique} = NULL WHERE company_id = ?1
    AND ${unique} IN (SELECT e.value ->> 1 FROM json_each(?2) AS e)
    AND NOT EXISTS (SELECT 1 FROM json_each(?2) AS e WHERE e.value ->> 0 = ${table}.id AND e.value ->> 1 = ${table}.${unique})`
  return [statement(text, companyId, JSON.stringify(taken))]
}

/** Removes the rows with these keys from the destination. */
export async function removeKeys(context: CompanyContext, plan: Copied, keys: readonly Key[]): Promise<void> {
  if (keys.length === 0) return
  await writeMoved(context, [orm.delete(tableOf(plan.table)).where(isAmong(context, plan, keys))])
}

/** Finds the last copied row of a table with appended rows. */
export async function findLastCopied({ companyId, db }: CompanyContext, { table, key }: Copied): Promise<number> {
  const last = `SELECT max(${key}) AS last FROM ${table} WHERE company_id = ?`
  const [[row]] = await db.read([statement<{ last: number | null }>(last, companyId)])
  return row?.last ?? 0
}
