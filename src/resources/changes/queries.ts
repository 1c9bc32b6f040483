import { sql } from 'drizzle-orm'
import { orm, type Placeholders, prepareBatch } from '../../kernel/db/client.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { changes, companies } from '../../kernel/db/schema.ts'
import type { Change, ChangeType } from './contract.ts'
import { presentChange } from './present.ts'

/** Limits the rows that one page reads: with a filter it may find none among them. */
const WINDOW = 5_000

/** A part of the feed. */
export interface ChangePage {
  data: Change[]
  /** The sequence up to which the feed was read. */
  readTo: number
  hasMore: boolean
  /** The oldest stored sequence, or the next one where none is stored. */
  oldest: number
}

const page = prepareBatch((p: Placeholders<'companyId' | 'after' | 'types' | 'limit'>) => {
  const oldest = sql`(SELECT min(sequence) FROM changes WHERE company_id = ${p.companyId})`
  const first = sql`max(CAST(${p.after} AS INTEGER), coalesce(${oldest}, 1) - 1)`
  const { sequence, type, entity_id, operation, version, at } = changes
  return [
    orm
      .select({ last: companies.last_change, oldest: sql<number | null>`${oldest}`.as('oldest') })
      .from(companies)
      .where(sql`${companies.id} = ${p.companyId}`),
    orm
      .select({
        sequence,
        type,
        entity_id,
        operation,
        version,
        at,
        account_email: threadColumn('account_email'),
        legacy_thread_id: threadColumn('legacy_thread_id'),
      })
      .from(changes)
      .where(
        sql`${changes.company_id} = ${p.companyId} AND ${sequence} > ${first} AND ${sequence} <= ${first} + ${sql.raw(String(WINDOW))}
          AND ${type} IN (SELECT value FROM json_each(${p.types}))`,
      )
      .orderBy(sequence)
      .limit(p.limit),
  ]
})

/** Selects a column of the change's thread; null for other types. */
function threadColumn(name: 'account_email' | 'legacy_thread_id') {
  return sql<string | null>`(SELECT ${sql.raw(name)} FROM email_threads AS thread
    WHERE changes.type = 'email_threads' AND thread.id = changes.entity_id AND thread.company_id = changes.company_id)`.as(
    name,
  )
}

/** Finds the changes of some types after a sequence, oldest first. */
export async function findChanges(
  { db, companyId }: CompanyContext,
  { after, types, limit }: { after: number; types: readonly ChangeType[]; limit: number },
): Promise<ChangePage> {
  const [[company], rows] = await db.read(page({ companyId, after, types: JSON.stringify(types), limit: limit + 1 }))
  const last = company?.last ?? 0
  const oldest = company?.oldest ?? last + 1
  const shown = rows.slice(0, limit)
  const isFull = rows.length > limit
  const readTo = isFull ? (shown.at(-1)?.sequence ?? after) : Math.min(Math.max(after, oldest - 1) + WINDOW, last)
  return { data: shown.map(presentChange), readTo: Math.max(readTo, after), hasMore: readTo < last, oldest }
}

/** Finds the sequence of the company's newest change. */
export async function findLastChange({ db, companyId }: CompanyContext): Promise<number> {
  const [[company]] = await db.read([
    orm.select({ last: companies.last_change }).from(companies).where(sql`${companies.id} = ${companyId}`),
  ])
  return company?.last ?? 0
}
