import type { CompanyContext } from '../../kernel/db/context.ts'
import type { PlacedContext } from '../../kernel/db/placement.ts'
import { BUDGET_MS, DeadlineError, log, withDeadline } from '../../kernel/http/isolate.ts'
import { companyPrefix } from '../../resources/files/keys.ts'
import { parseObjectKey, REPLACED_MS } from '../../resources/mail/content.ts'
import { endTokens, raiseSequences, removeSome } from './restore-queries.ts'
import { BackupError, inTime, listBackups, readManifest } from './store.ts'
import { OBJECTS, type Row, SEQUENCES, type Sequences } from './tables.ts'
import { restoreRows } from './write-queries.ts'

/** Skips sequences of changes in the last minutes before the loss, which are unknown: none may be used twice. */
const FEED_MARGIN = 1_000_000

/** Invoice numbers of the accounting system that are further away belong to another numbering. */
const NUMBER_SPAN = 100_000

/** Cache keys by the hash of a revoked or replaced token; the value is its end in milliseconds. */
const REVOKED = 'revoked/'
/** Limits the values that one call reads. */
const REVOKED_AT_ONCE = 100

/** The steps that remain after rows were restored or the whole database was reset. */
export interface Reconciliation {
  left: ('known' | 'files' | 'mail' | 'accounting' | 'tokens' | 'raise')[]
  sequences: Sequences
  cursor: string | null
  /** Whether the company's accounting system gave its last invoice number: `none` if it is not connected. */
  accounting: 'none' | 'read' | 'failed'
  /** The backup's row of `companies`; null if the database has one. */
  company: Row | null
}

export interface ReconcileContext extends PlacedContext {
  /** The slot in the full-text tables by the directory; null without such a company there. */
  slot: number | null
  cache: KVNamespace
  bucket: R2Bucket
  /** The deployment's own files. */
  files: R2Bucket
  /** See `findLastNumber` of `delivery/accounting/delivery.ts`. */
  findLastNumber: (ceiling: number) => Promise<number | 'none' | 'failed'>
}

/**
 * Raises the company's sequences past all known values and restarts its feed. Each call does some steps and is repeated
 * until it is done.
 *
 * @param run names the recovery; another name starts again
 */
export async function continueRecovery(context: ReconcileContext, kv: SyncKvStorage, run: string, ms: number) {
  const endMs = Date.now() + ms
  const stored = kv.get<{ run: string; reconciliation: Reconciliation }>('recovery')
  let reconciliation = stored?.run === run ? stored.reconciliation : beginReconciliation(null)
  while (reconciliation.left.length > 0 && Date.now() < endMs) {
    reconciliation = await stepReconciliation(context, reconciliation)
    kv.put('recovery', { run, reconciliation })
  }
  const { left, sequences, accounting } = reconciliation
  return { done: left.length === 0, company: { id: context.companyId, ...sequences, accounting } }
}

export function beginReconciliation(company: Row | null): Reconciliation {
  const tokens = company ? (['tokens'] as const) : []
  const left: Reconciliation['left'] = ['known', 'files', 'mail', 'accounting', ...tokens, 'raise']
  return { left, sequences: highest(company ?? {}), cursor: null, accounting: 'none', company }
}

/** Does one step, which may be repeated. @returns the state after it; at the end nothing is `left` */
export async function stepReconciliation(context: ReconcileContext, state: Reconciliation): Promise<Reconciliation> {
  const [phase, ...left] = state.left
  /** Goes on with a listing's next page, or with the next step. */
  const toPage = (cursor: string | null) => ({ ...state, cursor, left: cursor === null ? left : state.left })
  switch (phase) {
    case 'known': {
      const { [context.companyId]: known = {} } = (await readKnownSequences(context.bucket)).known
      return { ...state, left, sequences: highest(state.sequences, await readNewestCompany(context), known) }
    }
    case 'files': {
      // Without the company's own storage.
      const prefix = companyPrefix(context.companyId)
      const { delimitedPrefixes, next } = await listPage(context.files, { prefix, delimiter: '/' }, state.cursor)
      const ids = delimitedPrefixes.map((folder) => Number(folder.slice(prefix.length, -1)))
      const last_order_id = Math.max(0, ...ids.filter(Number.isSafeInteger))
      return { ...toPage(next), sequences: highest(state.sequences, { last_order_id }) }
    }
    case 'mail': {
      const { objects, next } = await listPage(context.files, { prefix: `mail/${context.companyId}/` }, state.cursor)
      // The sweep removes those that the database does not know, as if their content was replaced now.
      const replaced = { state: 'replaced', remove_at: Date.now() + REPLACED_MS }
      const found = objects.map(({ key, size }) => ({ ...parseObjectKey(key), bytes: size, ...replaced }))
      await restoreRows(context, OBJECTS, found)
      return toPage(next)
    }
    case 'accounting': {
      const number = context.findLastNumber(state.sequences.last_invoice_number + NUMBER_SPAN)
      const found = await withDeadline(number, BUDGET_MS.handler / 2).catch((error: unknown) =>
        error instanceof DeadlineError ? 'failed' : Promise.reject(error),
      )
      if (typeof found === 'string') return { ...state, left, accounting: found }
      return { ...state, left, accounting: 'read', sequences: highest(state.sequences, { last_invoice_number: found }) }
    }
    case 'tokens':
      return toPage((await revokeAgain(context, state.cursor)).cursor)
    case 'raise': {
      if (!(await removeSome(context, 'changes')) || !(await removeSome(context, 'webhook_deliveries'))) return state
      const sequences = { ...state.sequences, last_change: state.sequences.last_change + FEED_MARGIN }
      return { ...state, left, sequences: await raiseSequences(context, sequences, state.company) }
    }
    default:
      return state
  }
}

function highest(...rows: Row[]): Sequences {
  const values = SEQUENCES.map((name) => [name, Math.max(...rows.map((row) => Number(row[name] ?? 0)))])
  return Object.fromEntries(values) as Sequences
}

/** A damaged manifest must not end a recovery: the sweep's sequences are newer than any backup's. */
async function readNewestCompany(context: ReconcileContext): Promise<Row> {
  for (const at of (await listBackups(context)).toReversed()) {
    try {
      return (await readManifest(context, at)).company
    } catch (error) {
      if (!(error instanceof BackupError)) throw error
      log('backup_unreadable', { company_id: context.companyId, backup: at }, 'error')
    }
  }
  return {}
}

async function listPage(bucket: R2Bucket, options: R2ListOptions, cursor: string | null) {
  const page = await inTime(bucket.list({ ...options, ...(cursor !== null && { cursor }) }))
  return { ...page, next: page.truncated ? page.cursor : null }
}

/** Revokes again the tokens that a page of the cache lists as ended. @returns how many were valid, and the next page */
export async function revokeAgain(
  { cache, ...context }: CompanyContext & { cache: KVNamespace },
  cursor: string | null,
) {
  const read = async () => {
    const page = await cache.list({ prefix: REVOKED, limit: REVOKED_AT_ONCE, ...(cursor !== null && { cursor }) })
    const names = page.keys.map(({ name }) => name)
    return { page, ends: names.length === 0 ? [] : [...(await cache.get(names))] }
  }
  const { page, ends } = await inTime(read())
  const tokens = ends.map(([name, endedAt]) => [name.slice(REVOKED.length), Number(endedAt ?? 0)] as const)
  const revoked = tokens.length === 0 ? 0 : await endTokens(context, tokens)
  return { revoked, cursor: page.list_complete ? null : page.cursor }
}

/** The object of the bucket with the highest assigned ids of every company, as of the last sweep. */
const KEY = 'sequences.json'

async function readKnownSequences(bucket: R2Bucket) {
  const object = await inTime(bucket.get(KEY))
  const known = object && (await inTime(object.json<Record<number, Sequences>>()))
  return { etag: object?.etag, known: known ?? {} }
}

/**
 * Keeps the highest assigned ids outside of the database and never lowers them. A database with lower ids was reset:
 * this is logged until `POST /admin/v1/recovery` raises them.
 */
export async function saveSequences(companies: ({ id: number } & Sequences)[], bucket: R2Bucket): Promise<void> {
  const { etag, known } = await readKnownSequences(bucket)
  const behind: number[] = []
  let isChanged = false
  for (const { id, ...sequences } of companies) {
    const before = known[id]
    if (before && before.last_change > sequences.last_change) behind.push(id)
    if (!before || SEQUENCES.some((name) => before[name] < sequences[name])) isChanged = true
    known[id] = highest(sequences, before ?? {})
  }
  if (behind.length > 0) log('database_set_back', { companies: behind.length, company_id: behind[0] }, 'error')
  // Where another sweep has written meanwhile, this one does not: the next one adds what is missing.
  if (isChanged) await inTime(bucket.put(KEY, JSON.stringify(known), etag ? { onlyIf: { etagMatches: etag } } : {}))
}
