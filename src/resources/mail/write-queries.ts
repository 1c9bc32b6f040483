import { type Placeholder, type SQL, sql } from 'drizzle-orm'
import type { RequestContext } from '../../kernel/api/context.ts'
import { type Administrator, adminEntry, auditEntry } from '../../kernel/db/audit.ts'
import { databaseMessage, orm, type Placeholders, prepare, prepareBatch } from '../../kernel/db/client.ts'
import { assignments, insertRow } from '../../kernel/db/columns.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { actorOf } from '../../kernel/db/idempotency.ts'
import { quotaRefusal, withinQuotas } from '../../kernel/db/refusals.ts'
import { emailThreadObjects, emailThreads } from '../../kernel/db/schema.ts'
import { unavailable } from '../../kernel/http/errors.ts'
import { BUDGET_MS, DeadlineError, LruCache } from '../../kernel/http/isolate.ts'
import { REPLACED_MS } from './content.ts'
import { isThread, objectOfThread, type ThreadKey, type ThreadRow, threadColumns } from './queries.ts'
import type { ThreadColumns } from './thread-input.ts'

const { company_id, legacy_thread_id, account_email } = emailThreads

/** The stored content hashes last seen, by thread: a hint that each statement checks. */
const knownHashes = new LruCache<string, string>({ maxWeight: 10_000 })

const hashKey = (...key: [companyId: number, legacyThreadId: string, accountEmail: string]) => key.join('/')

export const rememberHash = ({ company_id, legacy_thread_id, account_email, content_hash }: ThreadRow): void =>
  knownHashes.set(hashKey(company_id, legacy_thread_id, account_email), content_hash)

/** Gives an announced object to a thread, or fails and so rolls back its batch: the sweep may have taken it. */
function nameObject(p: Record<'companyId' | 'newId', Placeholder | number | string>, threadId: SQL) {
  const isNamed = sql`EXISTS (SELECT 1 FROM email_thread_objects AS o WHERE o.id = ${p.newId} AND o.thread_id = email_threads.id)`
  const isAnnounced = sql`id = ${p.newId} AND company_id = ${p.companyId} AND state = 'writing'`
  const isUnnamed = sql`id = ${threadId} AND company_id = ${p.companyId} AND NOT ${isNamed}`
  const named = { state: 'stored', thread_id: threadId, remove_at: null } as const
  return [
    orm.update(emailThreadObjects).set(named).where(sql`${isAnnounced} AND ${threadId} IS NOT NULL`),
    orm.update(emailThreads).set({ content_hash: sql`NULL` }).where(isUnnamed),
    // The content was stored already: the sweep removes this object.
    orm.update(emailThreadObjects).set({ state: 'replaced' }).where(isAnnounced),
  ] as const
}

/** The database's own message when {@link nameObject} failed. */
const OBJECT_LOST = 'NOT NULL constraint failed: email_threads.content_hash'

type ThreadParams = { [Name in keyof ThreadValues]: Placeholder } & Partial<Placeholders<'content'>>

/** Whether the thread has this content, in its row or in an object, which is not looked up in R2. */
const hasContent = (p: ThreadParams) =>
  sql`${isThread(p)} AND content_hash = ${p.content_hash} AND (content IS NOT NULL OR ${objectOfThread} IS NOT NULL)`

/** Whether a write changes no content and restores no deleted thread, so it has no audit entry. */
const isTouch = (p: ThreadParams) => sql`${hasContent(p)} AND ${emailThreads.deleted} = 0`

const touch = prepare((p: ThreadParams) =>
  orm
    .update(emailThreads)
    .set({ ...sentColumns(p), revision: sql`${emailThreads.revision} + 1` })
    .where(isTouch(p))
    .returning(threadColumns),
)

/**
 * Updates all but the content, if that is stored; undefined otherwise, and where the isolate does not expect it. A large
 * thread that the isolate does not know is tried too: compressing and sending its content costs more.
 *
 * @throws ApiError 413 when the company would exceed a quota; nothing is changed then
 */
export async function touchThread(context: RequestContext, values: ThreadValues, isLarge: boolean) {
  const known = knownHashes.get(hashKey(values.companyId, values.legacyThreadId, values.accountEmail))
  const mayBeStored = known === values.content_hash || (known === undefined && isLarge)
  if (!mayBeStored) return undefined
  const [, [row]] = await context.db.writeIdempotent(withinQuotas(values.companyId, [touch(values)])).catch(explain)
  if (!row) return undefined
  rememberHash(row)
  context.announceChange()
  return row
}

const replaceThread = prepareBatch((p: ThreadParams) => {
  const columns = sentColumns(p)
  const { revision, content_revision, content } = emailThreads
  const key = { company_id: p.companyId, legacy_thread_id: p.legacyThreadId, account_email: p.accountEmail }
  const first = { revision: 1, content_revision: 1, content: p.content }
  const created = { ...columns, ...key, ...first, id: p.newId, created_at: p.now }
  const exists = (condition: SQL) => sql`EXISTS (SELECT 1 FROM ${emailThreads} WHERE ${condition})`
  const isStored = exists(hasContent(p))
  /** Selects the thread's id, if this batch wrote its content. */
  const written = sql`(SELECT id FROM ${emailThreads} WHERE ${isThread(p)} AND content_revision = revision)`
  const idOrNew = sql`coalesce((SELECT id FROM ${emailThreads} WHERE ${isThread(p)}), ${p.newId})`
  return [
    auditEntry(p, 'email_thread.write', idOrNew, sql`NOT ${exists(isTouch(p))}`),
    // Without a condition, ON CONFLICT would be parsed as part of a join.
    insertRow(emailThreads, created, sql`WHERE true`)
      .onConflictDoUpdate({
        target: [company_id, legacy_thread_id, account_email],
        set: {
          ...columns,
          revision: sql`${revision} + 1`,
          content_revision: sql`iif(${isStored}, ${content_revision}, ${revision} + 1)`,
          content: sql`iif(${isStored}, ${content}, excluded.content)`,
        },
      })
      .returning(threadColumns),
    // The sweep removes the object of the content before.
    orm
      .update(emailThreadObjects)
      .set({ state: 'replaced', thread_id: null, remove_at: sql`${p.now} + ${sql.raw(String(REPLACED_MS))}` })
      .where(sql`thread_id = ${written} AND company_id = ${p.companyId}`),
    ...(p.content ? [] : nameObject(p, written)),
  ]
})

/**
 * Creates the thread or replaces the sent fields in one transaction. Content that is already stored is not written.
 *
 * @param content in base64; without it the announced object with the id `newId` has the content
 * @throws ApiError 413 when the company would exceed a quota, 503 when the object is lost; nothing is changed then
 */
export async function writeThread(context: RequestContext, values: ThreadValues, content?: string) {
  // The response was sent without it: a newer PUT may have been carried out since.
  if (Date.now() >= context.now + BUDGET_MS.handler) throw new DeadlineError(BUDGET_MS.handler)
  const [, , [row]] = await context.db
    .writeIdempotent(withinQuotas(values.companyId, replaceThread({ ...values, content })))
    .catch(explain)
  if (!row) throw new Error('An upsert returned no row.')
  rememberHash(row)
  context.announceChange()
  return row
}

export async function findThreadId({ companyId, db }: CompanyContext, key: ThreadKey): Promise<string | undefined> {
  const [[row]] = await db.read([selectId({ companyId, ...key })])
  return row?.id
}

const selectId = (key: ThreadKey & { companyId: number }) =>
  orm.select({ id: emailThreads.id }).from(emailThreads).where(isThread(key))

/** Inserts an imported thread unless there is one, which has another id. @returns the id of the stored one */
export async function insertThread(
  context: CompanyContext & Administrator,
  row: Omit<typeof emailThreads.$inferInsert, 'company_id'>,
  objectId: string | undefined,
): Promise<string> {
  const { companyId, db } = context
  // A thread that was there before has its content in its row, or in an object that names it.
  const imported = sql`(SELECT id FROM ${emailThreads} WHERE id = ${row.id} AND company_id = ${companyId} AND content IS NULL
    AND NOT EXISTS (SELECT 1 FROM email_thread_objects AS named WHERE named.thread_id = ${row.id}))`
  const insert = orm.insert(emailThreads).values({ ...row, company_id: companyId })
  const [, , [stored]] = await db.writeIdempotent([
    insert.onConflictDoNothing({ target: [company_id, legacy_thread_id, account_email] }),
    adminEntry(context, 'companies.import', `email-threads/${row.id}`, sql`changes() > 0`),
    selectId({ companyId, legacyThreadId: row.legacy_thread_id, accountEmail: row.account_email }),
    ...(objectId ? nameObject({ companyId, newId: objectId }, imported) : []),
  ])
  return stored?.id ?? row.id
}

function explain(error: unknown): never {
  const isLost = databaseMessage(error).includes(OBJECT_LOST)
  throw isLost ? unavailable(10) : (quotaRefusal(error) ?? error)
}

function sentColumns(p: ThreadParams) {
  return assignments(emailThreads, { ...p, content: undefined, updated_at: p.now, deleted: sql`0` })
}

export type ThreadValues = ReturnType<typeof threadValues>

/** The values of the statements. An omitted text or time is absent, so its column stays. */
export function threadValues(context: RequestContext, key: ThreadKey, columns: ThreadColumns) {
  const last_synced_at = columns.last_synced_at ?? context.now
  return { ...actorOf(context), ...key, ...columns, newId: crypto.randomUUID(), last_synced_at }
}
