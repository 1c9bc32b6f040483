import { type SQL, sql } from 'drizzle-orm'
import type { RequestContext } from '../../kernel/api/context.ts'
import { type Actor, auditEntry } from '../../kernel/db/audit.ts'
import { orm, type Placeholders, prepareBatch, prepareNamed } from '../../kernel/db/client.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { type KeyName, resultStatement, type Write, writerOf } from '../../kernel/db/idempotency.ts'
import { emailThreads } from '../../kernel/db/schema.ts'
import type { CursorPosition } from '../../kernel/http/cursor.ts'
import { isLive, isThread, type Key, type ThreadKey, type ThreadRow } from './queries.ts'
import { TEXT_FIELDS, type TextField } from './thread-input.ts'

/** Characters of a text's JSON in a list, and the end of a truncated one. */
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

/** A thread without its content; `deleted` is 0 or 1. A text is JSON, truncated if it is long: see {@link CUT}. */
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

/** The columns of a page: without the content of threads that are only scanned. */
const NAMES = sql.raw([...OTHER_FIELDS, ...TEXT_FIELDS].join(', '))

const decode = (json: string): ThreadSummaryRow => JSON.parse(json)

/** Limits the threads read for one page: with filters it may have fewer than requested, or none. */
const MAX_SCANNED = 1_000

/** The values of `deleted` that are listed. */
const LISTED = { exclude: '[0]', include: '[0,1]', only: '[1]' }

type Page = Placeholders<'companyId' | 'accountEmail' | 'listed' | 'updatedSince' | 'createdAt' | 'id' | 'limit'>

const page = prepareBatch((p: Page) => {
  const order = sql`created_at DESC, id DESC`
  const follows = sql`company_id = ${p.companyId} AND account_email = ${p.accountEmail}
    AND (created_at, id) < (${p.createdAt}, ${p.id})`
  const isListed = sql`deleted IN (SELECT value FROM json_each(${p.listed})) AND updated_at >= ${p.updatedSince}`
  const scanned = sql`SELECT ${NAMES} FROM ${emailThreads} WHERE ${follows} ORDER BY ${order} LIMIT ${sql.raw(String(MAX_SCANNED))}`
  const isFull = sql`(SELECT count(*) FROM (SELECT 1 FROM (${scanned}) WHERE ${isListed} LIMIT ${p.limit})) = ${p.limit}`
  return [
    orm
      .select({ json: sql<string>`${summary}`.as('json') })
      .from(sql`(${scanned})`)
      .where(isListed)
      .limit(p.limit),
    // The last thread read, if the listed ones do not fill the page.
    orm.select({ created_at: sql<number>`created_at`, id: sql<string>`id` }).from(
      sql`(SELECT created_at, id FROM ${emailThreads} WHERE ${follows} ORDER BY ${order}
          LIMIT iif(${isFull}, 0, 1) OFFSET ${sql.raw(String(MAX_SCANNED - 1))})`,
    ),
  ]
})

/**
 * Lists a page of a mailbox's threads, newest created first, without their content.
 *
 * @param options.after the `next` of the previous page
 * @returns `next` is null when no thread follows
 */
export async function listThreads(
  { companyId, db }: CompanyContext,
  options: {
    accountEmail: string
    deleted: keyof typeof LISTED
    updatedSince: number
    after: CursorPosition | null
    limit: number
  },
): Promise<{ rows: ThreadSummaryRow[]; next: CursorPosition | null }> {
  const { accountEmail, deleted, updatedSince, limit } = options
  const [createdAt = null, id = null] = options.after ?? [Number.MAX_SAFE_INTEGER, '']
  const values = { companyId, accountEmail, listed: LISTED[deleted], updatedSince, createdAt, id, limit: limit + 1 }
  const [found, [end]] = await db.read(page(values))
  const rows = found.map(({ json }) => decode(json))
  const shown = rows.slice(0, limit)
  const last = rows.length > limit ? shown.at(-1) : end
  return { rows: shown, next: last ? [last.created_at, last.id] : null }
}

const deletion = prepareNamed((p: Placeholders<Actor | Key, KeyName>) => {
  const threadId = sql`(SELECT id FROM ${emailThreads} WHERE ${isThread(p)})`
  const values = { deleted: true, updated_at: sql`${p.now}`, revision: sql`${emailThreads.revision} + 1` }
  return {
    audit: auditEntry(
      p,
      'email_thread.delete',
      threadId,
      sql`EXISTS (SELECT 1 FROM ${emailThreads} WHERE ${isLive(p)})`,
    ),
    thread: orm.update(emailThreads).set(values).where(isLive(p)),
    result: resultStatement(p, sql`SELECT ${summary} FROM ${emailThreads} WHERE ${isThread(p)} AND changes() > 0`),
  }
})

/**
 * Soft-deletes a thread, which keeps its content. The result is undefined if it does not exist or is already deleted.
 */
export function threadDeletionOf(context: RequestContext, key: ThreadKey): Write<ThreadSummaryRow | undefined> {
  return {
    statements: deletion({ ...writerOf(context), ...key }),
    isDeletion: true,
    read: (result) => (result === null ? undefined : decode(result)),
  }
}
