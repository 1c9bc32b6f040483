import { type SQL, sql } from 'drizzle-orm'
import type { RequestContext } from '../context.ts'
import { type Actor, auditEntry } from '../db/audit.ts'
import { type CompanyContext, orm, type Placeholders, prepare, prepareBatch } from '../db/client.ts'
import { type KeyName, resultStatement, type Write, writerOf } from '../db/idempotency.ts'
import { emailThreads } from '../db/schema.ts'
import type { CursorPlace } from '../http/cursor.ts'
import { isLive, isThread, type Key, type ThreadKey, type ThreadRow } from './queries.ts'
import { TEXT_FIELDS, type TextField } from './thread-input.ts'

/** Characters of JSON that a list has of a text, and the end of one that it has cut. */
const TEXT_CHARACTERS = 2_000
export const CUT = '…'

const OTHER_FIELDS = [
  'id',
  'account_email',
  'legacy_thread_id',
  'message_count',
  'first_message_at',
  'last_message_at',
  'last_synced_at',
  'created_at',
  'updated_at',
  'deleted',
] as const

/** A thread without its content; `deleted` is 0 or 1. A text is JSON, cut where it is long: see {@link CUT}. */
export type ThreadSummaryRow = Pick<ThreadRow, Exclude<(typeof OTHER_FIELDS)[number], 'deleted'> | TextField> & {
  deleted: boolean | number
}

/** The summary as a JSON object. */
const summary: SQL = (() => {
  const cut = (field: string) =>
    sql.raw(`'${field}', CASE WHEN length(${field}) <= ${TEXT_CHARACTERS} THEN ${field}
    ELSE substr(${field}, 1, ${TEXT_CHARACTERS}) || '${CUT}' END`)
  const members = [...OTHER_FIELDS.map((field) => sql.raw(`'${field}', ${field}`)), ...TEXT_FIELDS.map(cut)]
  return sql`json_object(${sql.join(members, sql`, `)})`
})()

const decode = (json: string): ThreadSummaryRow => JSON.parse(json)

/** Threads that one page looks at: it may have fewer than requested, or none, where others are filtered out. */
export const MAX_SCANNED = 1_000

/** Whether threads are listed, by their `deleted`. */
const LISTED = { exclude: '[0]', include: '[0,1]', only: '[1]' }

type Page = Placeholders<'companyId' | 'accountEmail' | 'listed' | 'updatedSince' | 'createdAt' | 'id' | 'limit'>

const page = prepare((p: Page) => {
  const order = sql`ORDER BY created_at DESC, id DESC`
  const scanned = sql`SELECT * FROM ${emailThreads} WHERE company_id = ${p.companyId}
    AND account_email = ${p.accountEmail} AND (created_at, id) < (${p.createdAt}, ${p.id}) ${order}
    LIMIT ${sql.raw(String(MAX_SCANNED))}`
  const isListed = sql`deleted IN (SELECT value FROM json_each(${p.listed})) AND updated_at >= ${p.updatedSince}`
  return orm
    .select({
      createdAt: sql<number>`created_at`,
      id: sql<string>`id`,
      /** Null for the last that was looked at, where it is filtered out. */
      json: sql<string | null>`CASE WHEN is_listed THEN ${summary} END`.as('json'),
      isLast: sql<number>`position = ${sql.raw(String(MAX_SCANNED))}`.as('is_last'),
    })
    .from(sql`(SELECT *, ${isListed} AS is_listed, row_number() OVER (${order}) AS position FROM (${scanned}))`)
    .where(sql`is_listed OR is_last`)
    .orderBy(sql`position`)
    .limit(p.limit)
})

/**
 * A page of a mailbox's threads, newest created first, without their content.
 *
 * @param options.after the place that the page before has returned as `last`
 * @returns `last` is null when no thread follows
 */
export async function listThreads(
  { companyId, db }: CompanyContext,
  options: {
    accountEmail: string
    deleted: keyof typeof LISTED
    updatedSince: number
    after: CursorPlace | null
    limit: number
  },
): Promise<{ rows: ThreadSummaryRow[]; last: CursorPlace | null }> {
  const { accountEmail, deleted, updatedSince, limit } = options
  const [createdAt = null, id = null] = options.after ?? [Number.MAX_SAFE_INTEGER, '']
  const values = { companyId, accountEmail, listed: LISTED[deleted], updatedSince, createdAt, id, limit: limit + 1 }
  const [found] = await db.read([page(values)])
  const rows = found.flatMap(({ json }) => (json === null ? [] : [decode(json)]))
  const shown = rows.slice(0, limit)
  const end = found.at(-1)
  const last = rows.length > limit ? shown.at(-1) : end?.isLast ? { created_at: end.createdAt, id: end.id } : undefined
  return { rows: shown, last: last ? [last.created_at, last.id] : null }
}

const deletion = prepareBatch((p: Placeholders<Actor | Key, KeyName>) => {
  const threadId = sql`(SELECT id FROM ${emailThreads} WHERE ${isThread(p)})`
  const values = { deleted: true, updated_at: sql`${p.now}`, revision: sql`${emailThreads.revision} + 1` }
  return [
    auditEntry(p, 'email_thread.delete', threadId, sql`EXISTS (SELECT 1 FROM ${emailThreads} WHERE ${isLive(p)})`),
    orm.update(emailThreads).set(values).where(isLive(p)),
    resultStatement(p, sql`SELECT ${summary} FROM ${emailThreads} WHERE ${isThread(p)} AND changes() > 0`),
  ]
})

/** The soft deletion of a thread, which keeps its content. Its result is undefined when there is none, or it is deleted. */
export function threadDeletionOf(context: RequestContext, key: ThreadKey): Write<ThreadSummaryRow | undefined> {
  return {
    statements: deletion({ ...writerOf(context), ...key }),
    read: (result) => (result === null ? undefined : decode(result)),
  }
}
