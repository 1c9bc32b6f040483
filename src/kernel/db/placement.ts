import { isNotNull, type SQL, sql } from 'drizzle-orm'
import { type ApiError, unavailable } from '../http/errors.ts'
import { log, nameOf } from '../http/isolate.ts'
import {
  type Database,
  type DatabaseOptions,
  databaseMessage,
  databaseText,
  openDatabase,
  orm,
  type Results,
  type Statements,
  statement,
} from './client.ts'
import type { CompanyContext } from './context.ts'
import { DATABASE_BINDING } from './names.ts'
import { lacksSchema } from './refusals.ts'
import { companies } from './schema.ts'

/**
 * The database that knows every company: tokens, members, what administrators did, and where each company's data is. It
 * has the data of companies too. Further databases are bindings `DB_…` with the same schema.
 */
export const DIRECTORY = 'DB'

/** The form of D1's bookmarks, of which it accepts anything locally, and the database where that is not the directory. */
const BOOKMARK = /^([0-9a-f]{8}-[0-9a-f]{8}-[0-9a-f]{8}-[0-9a-f]{32})(?:@(DB_[A-Z0-9_]{1,40}))?$/

export type Version = { database: string; bookmark: string }

export function parseBookmark(text: string | null | undefined): Version | null {
  const [, bookmark, database = DIRECTORY] = BOOKMARK.exec(text ?? '') ?? []
  return bookmark === undefined ? null : { database, bookmark }
}

type Bindings = { DB: D1Database }

export function databaseNames(env: Bindings): string[] {
  return Object.keys(env)
    .filter((name) => DATABASE_BINDING.test(name))
    .sort()
}

/** @throws ApiError 503 where the deployment has no such binding: never another database in its place */
export function bindingOf(env: Bindings, name: string): D1Database {
  const binding: unknown = DATABASE_BINDING.test(name) ? Reflect.get(env, name) : undefined
  if (typeof binding === 'object' && binding !== null) return binding as D1Database
  throw missing('database_missing', name, `there is no binding ${name}`)
}

function missing(event: string, database: string, cause: string): ApiError {
  log(event, { database }, 'error')
  return unavailable(RETRY_AFTER_SECONDS, { message: 'The database of this company is not available', cause })
}

export function directoryFor(env: Bindings, options: DatabaseOptions = {}): Database {
  return openDatabase(bindingOf(env, DIRECTORY), options)
}

/**
 * Opens the database of a company. Each batch, but for reads where there is one database, begins with a statement that
 * fails where the company has moved, and for a write while its writes are refused. So no write may use another way: see
 * `test/architecture.test.ts`. A batch for a company that has moved runs again in its new database, so an old placement
 * neither reads nor writes there.
 *
 * @param options.bookmark of that database, as its slot
 * @param options.mustExist refuses a company whose rows the database has lost: it would be served as one without data
 * @throws ApiError 503 where the binding is missing; its calls also where the database fails, and writes during a move
 */
export function databaseFor(
  env: Bindings,
  { companyId, database }: { companyId: number; database: string },
  { bookmark, slot, onMoved, mustExist = false, ...options }: PlacedOptions = {},
): Database {
  let name = database
  let inner = openDatabase(bindingOf(env, name), { ...options, bookmark, slot, name })
  const isOnlyDatabase = databaseNames(env).length === 1
  let used: string | null = null

  async function run<T extends Statements>(kind: Kind, queries: T, moves = 0): Promise<Results<T>> {
    const isRead = kind === 'read'
    // Rows read or written in another database may have other ids in this one, or be left behind.
    const mayRun = isRead || used === null || used === name
    if (moves > MAX_MOVES || !mayRun) throw moving('it has just moved')
    const guards = isRead && isOnlyDatabase ? [] : [refuseGuarded(companyId, isRead, mustExist)]
    try {
      const results: unknown[] = await inner[kind]([...guards, ...queries] as unknown as Statements)
      used ??= name
      return results.slice(guards.length) as Results<T>
    } catch (error) {
      const guard = parseRefusal(error)
      // The look-up of a token verifies the schema of the directory only: Time Travel may set back another database.
      const isOutdated = !guard && name !== DIRECTORY && lacksSchema(error)
      if (isOutdated) throw missing('schema_outdated', name, `${name}: ${databaseText(error)}`)
      if (!guard) throw error
      if (guard.state === 'lost') throw missing('company_missing', name, `${name} has no company ${companyId}`)
      if (guard.state !== 'moved') {
        const [ended] = await inner.writeIdempotent([endStaleReadOnly(Date.now(), companyId)])
        if (ended.length > 0) return run(kind, queries, moves)
        throw moving('its writes are refused')
      }
      onMoved?.()
      name = guard.destination
      inner = openDatabase(bindingOf(env, name), { ...options, slot: guard.slot, name })
      return run(kind, queries, moves + 1)
    }
  }

  return {
    read: (queries) => run('read', queries),
    write: (queries) => run('write', queries),
    writeIdempotent: (queries) => run('writeIdempotent', queries),
    bookmark: () => {
      const newest = inner.bookmark()
      return newest === null || name === DIRECTORY ? newest : `${newest}@${name}`
    },
  }
}

type PlacedOptions = DatabaseOptions & { onMoved?: () => void; mustExist?: boolean }

type Kind = 'read' | 'write' | 'writeIdempotent'

/** A company that moves more often within one request is not followed. */
const MAX_MOVES = 3

/** The directory's row of a company elsewhere is a copy, until a move to the directory has ended. */
export const IS_OWN = "(database IS NULL OR id IN (SELECT company_id FROM company_guards WHERE state = 'writable'))"
const OR_LOST = `UNION ALL SELECT json_extract('{}', 'company_guard lost none 0')
  WHERE NOT EXISTS (SELECT 1 FROM companies WHERE id = ?1 AND ${IS_OWN})`

/** Fails for a company that has moved, or whose writes are refused: its error has the guard, for {@link parseRefusal}. */
const refuseGuarded = (companyId: number, isRead: boolean, mustExist: boolean) =>
  statement(
    `SELECT json_extract('{}', 'company_guard ' || state || ' ' || destination || ' ' || slot) FROM company_guards
      WHERE company_id = ?1 AND state IN (${isRead ? '' : "'read_only', "}'moved')
      ${mustExist ? OR_LOST : ''}`,
    companyId,
  )

function parseRefusal(error: unknown): { state: string; destination: string; slot: number } | null {
  const [, state, destination, slot] = /company_guard (\w+) (\w+) (\d+)/.exec(databaseMessage(error)) ?? []
  return state && destination ? { state, destination, slot: Number(slot) } : null
}

/** A move that refuses writes for longer was interrupted. */
const READ_ONLY_MAX_MS = 10_000

export function endStaleReadOnly(nowMs: number, companyId: number | null = null) {
  return statement<{ company_id: number }>(
    `UPDATE company_guards SET state = 'copying', read_only_at = NULL
      WHERE state = 'read_only' AND read_only_at < ?1 AND company_id = coalesce(?2, company_id) RETURNING company_id`,
    ...[nowMs - READ_ONLY_MAX_MS, companyId],
  )
}

const RETRY_AFTER_SECONDS = 2

function moving(cause: string): ApiError {
  const message = 'The company is being moved: nothing was changed. Retry after the seconds in Retry-After'
  return unavailable(RETRY_AFTER_SECONDS, { message, cause })
}

export const placementColumns = {
  database: sql<string>`coalesce(${companies.database}, ${sql.raw(`'${DIRECTORY}'`)})`.as('placed_database'),
  slot: sql<number>`coalesce(${companies.database_slot}, ${companies.slot})`.as('placed_slot'),
}

/** For changes of many companies' rows: not while a company's writes are refused, nor where its rows are a copy. */
export const isSettled = (companyId: SQL) =>
  sql`${companyId} NOT IN (SELECT company_id FROM company_guards WHERE state <> 'copying')`

/** Whether the rows of a company are in the database that is read: in one that it has left, or is yet to enter, are copies. */
export const isPresent = (companyId: SQL) =>
  sql`${companyId} NOT IN (SELECT g.company_id FROM company_guards AS g WHERE g.state = 'moved')`

/** Whether the data of a row of `companies` is in the database that has the row, and may be changed. */
export const isHere = sql`${companies.database} IS NULL AND ${isSettled(sql`${companies.id}`)}`

export interface PlacedContext extends CompanyContext {
  directory: Database
  database: string
}

/** The context of a company, by what the directory says now; in the directory itself for one that is in none. */
export async function openCompany(env: Bindings, companyId: number): Promise<PlacedContext & { slot: number | null }> {
  const directory = directoryFor(env)
  const [[row]] = await directory.read([
    orm.select(placementColumns).from(companies).where(sql`${companies.id} = ${companyId}`),
  ])
  const database = row?.database ?? DIRECTORY
  return { companyId, directory, database, slot: row?.slot ?? null, db: databaseFor(env, { companyId, database }) }
}

export function openEach(env: Bindings): { name: string; db: Database }[] {
  return databaseNames(env).map((name) => ({ name, db: openDatabase(bindingOf(env, name)) }))
}

/** Does the same for every database, in random order: none is always the last. A failure is logged. @throws the last one */
export async function forEachDatabase(env: Bindings, work: (db: Database, name: string) => Promise<void>) {
  let failure: { error: unknown } | null = null
  for (const name of databaseNames(env).sort(() => Math.random() - 0.5)) {
    try {
      await work(openDatabase(bindingOf(env, name)), name)
    } catch (error) {
      log('database_failed', { database: name, error: nameOf(error) }, 'error')
      failure = { error }
    }
  }
  if (failure) throw failure.error
}

/** The databases of companies for which the deployment has no binding. */
export async function listUnbound(env: Bindings): Promise<string[]> {
  const { database: name } = companies
  const [rows] = await directoryFor(env).read([orm.selectDistinct({ name }).from(companies).where(isNotNull(name))])
  return rows.flatMap(({ name }) => (name === null || databaseNames(env).includes(name) ? [] : name))
}

/**
 * Copies what the directory's row repeats of a company in another database, also if that is changed or moves meanwhile.
 *
 * @param changed a name or state that was not changed stays: a replica may not know yet what another request has changed
 */
export async function syncDirectory(context: PlacedContext, changed = ['name', 'suspended']): Promise<void> {
  const { companyId, db, directory } = context
  const findDatabase = () => parseBookmark(db.bookmark())?.database ?? context.database
  const isCompany = sql`${companies.id} = ${companyId}`
  const { name, suspended, slot } = companies
  for (let copied = ''; findDatabase() !== DIRECTORY; ) {
    const [[row]] = await db.read([orm.select({ name, suspended, slot }).from(companies).where(isCompany)])
    if (!row || JSON.stringify(row) === copied) return
    const fields = Object.entries(row).filter(([column]) => changed.includes(column))
    const database_slot = sql`iif(database = ${findDatabase()}, ${row.slot}, database_slot)`
    const update = orm.update(companies).set({ ...Object.fromEntries(fields), database_slot })
    await directory.writeIdempotent([update.where(sql`${isCompany} AND database IS NOT NULL`)])
    copied = JSON.stringify(row)
  }
}

/**
 * The place in a database's full-text tables for another company: the preferred one, or the lowest that is free. 1024,
 * which a constraint refuses, where there is none. That of another company on its way out or in is taken.
 */
export function freeSlot(preferred = 0, companyId: number | null = null): SQL<number> {
  const isFree = (slot: SQL) => sql`NOT EXISTS (SELECT 1 FROM companies AS u WHERE u.slot = ${slot}
    AND u.id IS NOT ${companyId} AND (u.database IS NULL OR u.id IN (SELECT company_id FROM moves)))`
  return sql<number>`coalesce(
    (SELECT p.slot FROM (SELECT ${preferred} AS slot) AS p WHERE p.slot BETWEEN 0 AND 1023 AND ${isFree(sql`p.slot`)}),
    (SELECT z.slot FROM (SELECT 0 AS slot) AS z WHERE ${isFree(sql`z.slot`)}),
    (SELECT min(c.slot) + 1 FROM companies AS c WHERE c.slot < 1023 AND ${isFree(sql`c.slot + 1`)}), 1024)`
}

/** Says why a company got no slot: {@link freeSlot} found none, or one that the directory gives to a company that it lost. */
export function slotProblem(error: unknown): string | null {
  const message = databaseMessage(error)
  if (message.includes('companies_slot')) return 'The database is full: it takes 1,024 companies'
  if (!message.includes('companies.database_slot')) return null
  return 'The database lacks a company that the directory has there: set both back to the same minute, and recover'
}
