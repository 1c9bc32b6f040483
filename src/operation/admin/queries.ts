import { type SQL, sql } from 'drizzle-orm'
import { orm, type Placeholders, prepareBatch } from '../../kernel/db/client.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import type { CursorPosition } from '../../kernel/db/lists.ts'
import { openEach, placementColumns } from '../../kernel/db/placement.ts'
import { companies, members } from '../../kernel/db/schema.ts'
import type { AdminContext, Membership } from './context.ts'

const access = prepareBatch((p: Placeholders<'email' | 'companyId'>) => [
  orm
    .select({ companyId: members.company_id, role: members.role })
    .from(members)
    .where(sql`${members.email} = ${p.email}`),
  orm
    .select({ database: placementColumns.database })
    .from(companies)
    .where(sql`${companies.id} = ${p.companyId}`),
])

/** Finds a person's roles, and the database of the path's company: null if there is no such company. */
export async function findAccess({ db, companyId }: CompanyContext, email: string) {
  const [roles, [company]] = await db.read(access({ email, companyId }))
  const memberships = new Map<number, Membership>(roles.map((row) => [row.companyId, row.role]))
  return { memberships, database: company?.database ?? null }
}

/** The query of a list, with the filters of the lists over all companies. */
export interface ListQuery<Id> {
  per_page: number
  /** By default the one of the context; 0 stands for all. */
  company_id?: number | undefined
  id?: Id | undefined
}

/** The condition of a list's filters. */
export function isListed(
  { companyId }: Pick<AdminContext, 'companyId'>,
  { company_id = companyId, id }: ListQuery<string | number>,
): SQL {
  const isOf = company_id === 0 ? sql`1` : sql`company_id = ${company_id}`
  return id === undefined ? isOf : sql`${isOf} AND id = ${id}`
}

/**
 * Lists rows of the path's company, or of all databases, one after the other, where the path names no company.
 *
 * @param after the key of the last row; in a list of all databases the database's name follows
 * @param list gets the context of a database and the key within it
 * @returns each row with what follows its own key in a cursor
 */
export async function listFromEach<Row>(
  context: AdminContext,
  after: CursorPosition | null,
  limit: number,
  list: (context: AdminContext, after: CursorPosition | null, limit: number) => Promise<Row[]>,
): Promise<{ row: Row; suffix: string[] }[]> {
  if (context.companyId !== 0) return (await list(context, after, limit)).map((row) => ({ row, suffix: [] }))
  const databases = openEach(context.env)
  const first = after === null ? 0 : databases.findIndex(({ name }) => name === after.at(-1))
  const rows: { row: Row; suffix: string[] }[] = []
  for (const [index, { name: database, db }] of databases.entries()) {
    if (index < first || rows.length >= limit) continue
    const place = index === first && after !== null ? after.slice(0, -1) : null
    const found = await list({ ...context, db, database }, place, limit - rows.length)
    rows.push(...found.map((row) => ({ row, suffix: [database] })))
  }
  return rows
}
