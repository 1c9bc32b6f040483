import { type SQL, sql } from 'drizzle-orm'
import { adminEntry } from '../../kernel/db/audit.ts'
import { orm, statement } from '../../kernel/db/client.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import type { CursorPosition } from '../../kernel/db/lists.ts'
import { IS_OWN, isPresent, openCompany, openEach, placementColumns } from '../../kernel/db/placement.ts'
import { lacksSchema } from '../../kernel/db/refusals.ts'
import { companies, members } from '../../kernel/db/schema.ts'
import { conflict, invalid, unavailable } from '../../kernel/http/errors.ts'
import { nameOf } from '../../kernel/http/isolate.ts'
import { hasContent } from '../copies/restore.ts'
import type { AdminContext } from './context.ts'

/** Finds a person's role in a company, and its database: null where the directory has none with this id. */
export async function findAccess({ db, companyId }: CompanyContext, email: string) {
  const select = (isMeant: SQL) => orm.select({ role: members.role }).from(members).where(isMeant).limit(1)
  const [[own], [some], [company]] = await db.read([
    select(sql`email = ${email} AND company_id = ${companyId}`),
    select(sql`email = ${email}`),
    orm.select({ database: placementColumns.database }).from(companies).where(sql`${companies.id} = ${companyId}`),
  ])
  return { isMember: !!some, ownRole: own?.role ?? ('member' as const), database: company?.database ?? null }
}

/**
 * @returns whether the directory has the company
 * @throws ApiError 409 where it has lost it, and a database other than `adopted` has its data, or that one has none
 */
export async function checkKnown({ companyId, directory, env }: AdminContext, adopted = ''): Promise<boolean> {
  const select = (isMeant = sql`1`) => statement(sql`SELECT id FROM companies WHERE id = ${companyId} AND ${isMeant}`)
  const [[known]] = await directory.read([select()])
  if (known) return true
  const isLost = sql`${isPresent(sql`id`)} AND ${hasContent({ companyId })}`
  const found = openEach(env).map(async ({ name, db }) => {
    const [rows] = await db.read([select(isLost)]).catch((error: unknown) => {
      // A database that is yet to be migrated.
      if (lacksSchema(error)) return [[]]
      const message = `${name} does not respond, and may have data of company ${companyId}`
      throw unavailable(2, { message, cause: nameOf(error) })
    })
    return rows.length > 0 ? [name] : []
  })
  const all = (await Promise.all(found)).flat()
  const names = all.join(' and ')
  if (names === adopted) return false
  const adopt = `take it back: companies create ${companyId} --database ${names} --adopt`
  const remedy = all.length === 1 ? adopt : 'set all databases back to the same minute, and recover'
  const lost = `${names} has data of company ${companyId}, which the directory has lost: ${remedy}`
  throw conflict(names ? lost : `${adopted} has no data of company ${companyId}: there is nothing to adopt`)
}

/** A list reads one row more than a page, after the cursor's key, which is empty on the first page. */
export interface Page<Query = unknown> {
  query: Query
  after: CursorPosition
  limit: number
}

export interface ListQuery {
  per_page: number
  cursor?: string | undefined
  /** By default the one of the context; 0 stands for all. */
  company_id?: number | undefined
  /** A text is unique in the deployment, a number in its database. */
  id?: string | number | undefined
  state?: string | undefined
}

export function isListed({ companyId }: AdminContext, { company_id = companyId, id }: ListQuery): SQL {
  const isOf = company_id === 0 ? sql`1` : sql`company_id = ${company_id}`
  return id === undefined ? isOf : sql`${isOf} AND id = ${id}`
}

/**
 * Lists rows of the company that the path or the filter names, or of all databases, one after the other. A database may
 * fail if another one has the unique `id`.
 *
 * @param input whose `after` ends with the database's name in a list of all databases
 * @returns each row with what follows its own key in a cursor
 */
export async function listFromEach<Input extends Page<ListQuery>, Row>(
  context: AdminContext,
  input: Input,
  list: (context: AdminContext, input: Input) => Promise<Row[]>,
): Promise<{ row: Row; suffix: string[] }[]> {
  const { after, limit, query } = input
  const { company_id, id } = query
  const ofCompany = company_id === undefined ? context : { ...context, ...(await openCompany(context.env, company_id)) }
  if (ofCompany.companyId !== 0) return listFromOne(ofCompany, input, list)
  const databases = openEach(context.env)
  const first = after.length === 0 ? 0 : databases.findIndex(({ name }) => name === after.at(-1))
  if (first < 0) throw invalid([{ path: 'cursor', message: 'is of a database that is gone: begin the list again' }])
  const rows: { row: Row; suffix: string[] }[] = []
  let failure: { error: unknown } | null = null
  for (const [index, { name: database, db }] of databases.entries()) {
    if (index < first || rows.length >= limit) continue
    const key = index === first ? after.slice(0, -1) : []
    try {
      const found = await list({ ...context, db, database }, { ...input, after: key, limit: limit - rows.length })
      rows.push(...found.map((row) => ({ row, suffix: [database] })))
    } catch (error) {
      if (typeof id !== 'string') throw error
      failure = { error }
    }
  }
  if (failure && rows.length === 0) throw failure.error
  return rows
}

export const listFromOne: typeof listFromEach = async (context, input, list) =>
  (await list(context, input)).map((row) => ({ row, suffix: [] }))

/** Begins a recovery: pauses the deliveries of every company. @returns how many were not paused before */
export async function beginRecovery(context: AdminContext, run: string): Promise<number> {
  await context.directory.writeIdempotent([adminEntry(context, 'deployment.recover', run)])
  let paused = 0
  for (const { db } of openEach(context.env)) {
    // A second run finds those of the first by their time. Time Travel may bring back the end of a move.
    const isMeant = sql`(deliveries_paused = 0 OR updated_at = ${context.now})
      AND ${sql.raw(IS_OWN)} AND ${isPresent(sql`id`)}`
    const pause = orm.update(companies).set({ deliveries_paused: true, updated_at: context.now }).where(isMeant)
    const [rows] = await db.writeIdempotent([pause.returning({ id: companies.id })])
    paused += rows.length
  }
  return paused
}
