import {
  chooseOrder,
  listStorageKeys,
  MAX_FILE_BYTES,
  type Plan,
  planAttachments,
  type SettledOutcome,
  type SkipReason,
  toContentType,
  withStorageKeys,
} from './attachments.ts'
import type { ApiClient } from './client.ts'
import { ApiError, nullIfNotFound, unexpectedAnswer } from './errors.ts'
import { type CallOptions, type FileData, sizeOf } from './transport.ts'
import type { Attachment, EmailThread, EmailThreadBody, Message } from './types.ts'

type Endpoints = Pick<ApiClient, 'mail' | 'files'>

export interface SyncOptions extends CallOptions {
  legacyThreadId: string
  accountEmail: string
  /** The whole thread: the API replaces what it has stored, so a message left out is removed. */
  thread: Omit<EmailThreadBody, 'account_email'>
  /** Loads one attachment's bytes from the mailbox; called only for those to upload. */
  loadAttachment: (message: Message, attachment: Attachment, signal: AbortSignal) => Promise<FileData> | FileData
  /** Attachments loaded, held in memory and uploaded at once, at least 1. Default 3. */
  concurrency?: number | undefined
  /** An error thrown here ends the run. */
  onProgress?: ((progress: SyncProgress) => void) | undefined
  /**
   * Decides on a thread whose attachments cannot be stored, see `SkipReason`: `linked`, the default, writes nothing;
   * `always` stores the thread without new attachments, so that it can be linked later and synced again.
   */
  storeThread?: 'always' | 'linked' | undefined
  /** Reads the listing and the thread again at the end and reports missing keys in `missingKeys`. */
  verify?: boolean | undefined
}

export interface SyncProgress {
  messageIndex: number
  attachmentIndex: number
  phase: 'loading' | 'uploading' | 'finished'
  sentBytes: number
  /** Null until the bytes are loaded. */
  totalBytes: number | null
  finishedCount: number
  totalCount: number
  /** In phase `finished`. */
  outcome: AttachmentOutcome | null
}

export type AttachmentOutcome = { messageIndex: number; attachmentIndex: number; filename: string | null } & (
  | SettledOutcome
  | { status: 'uploaded'; storageKey: string; sizeBytes: number }
  /** `error` is what `loadAttachment`, presign or upload threw, after retries. */
  | { status: 'failed'; error: unknown }
)

export type SyncResult =
  /** No attachment was uploaded. `emailThread` is what `storeThread: 'always'` has stored, else null. */
  | { status: 'skipped'; reason: SkipReason; emailThread: EmailThread | null }
  | {
      status: 'stored'
      orderId: string
      emailThread: EmailThread
      /** In the order of the thread. */
      attachments: AttachmentOutcome[]
      /** Null without `verify`, and where the listing of files is not complete. */
      missingKeys: string[] | null
    }

const MAX_THREAD_BYTES = 26_214_400
/** The most that a storage key adds to the thread's JSON. */
const MAX_KEY_BYTES = 600

/**
 * Stores a mail thread's attachments with the order that the thread is linked to, then the thread with their keys.
 * A run uploads what the stored thread has no key of: all of it again if an earlier run ended before it stored the thread.
 *
 * Keys of attachments that are stored already are never lost. An attachment that fails is reported, and the thread is
 * stored without a key for it. Rejects when the context, the listing or the thread fails, the thread is over 25 MiB, or
 * the signal is aborted.
 */
export async function syncAttachments(client: Endpoints, options: SyncOptions): Promise<SyncResult> {
  const { legacyThreadId, accountEmail: account_email, thread, concurrency = 3, signal } = options
  if (!Number.isInteger(concurrency) || concurrency < 1) throw new RangeError('concurrency must be a positive integer')

  const context = await client.mail.getThreadContext(legacyThreadId, { signal }).catch(nullIfNotFound)
  const target = context === null ? ({ reason: 'no_context' } as const) : chooseOrder(context)
  if ('reason' in target) return skip(target.reason)
  const { orderId } = target

  async function readMessages(): Promise<Message[]> {
    const stored = await client.mail.getEmailThread(legacyThreadId, { account_email, signal }).catch(nullIfNotFound)
    return stored?.emailThread?.messages ?? []
  }

  async function readStored() {
    const listing = client.files.list(orderId, { legacyThreadId, signal }).catch(nullIfNotFound)
    const [messages, found] = await Promise.all([readMessages(), listing])
    return { messages, files: found?.files ?? [], isConfigured: found?.configured ?? null, isCut: found?.truncated }
  }

  function put(plans: Plan[], newKeys: (string | null)[]): Promise<EmailThread> {
    const body = { ...thread, messages: withStorageKeys(thread.messages, plans, newKeys), account_email }
    return client.mail.putEmailThread(legacyThreadId, body, { signal })
  }

  async function skip(reason: SkipReason): Promise<SyncResult> {
    if (options.storeThread !== 'always') return { status: 'skipped', reason, emailThread: null }
    const plans = planAttachments(thread.messages, await readMessages(), [], account_email)
    return { status: 'skipped', reason, emailThread: await put(plans, []) }
  }

  const stored = await readStored()
  // The name of a new file could be that of one which is not listed.
  if (stored.isCut) throw unexpectedAnswer('The file list is cut')
  if (!stored.isConfigured) return skip(stored.isConfigured === null ? 'order_not_found' : 'storage_not_configured')

  const plans = planAttachments(thread.messages, stored.messages, stored.files, account_email)
  // Each later run would upload again what goes before a refused thread.
  if (new Blob([JSON.stringify(thread)]).size + plans.length * MAX_KEY_BYTES > MAX_THREAD_BYTES) {
    const details = { limit_bytes: MAX_THREAD_BYTES }
    const message = 'The thread would be over 25 MiB with its keys'
    throw new ApiError({ status: 413, code: 'invalid_request', message, details })
  }
  const attachments = await uploadPlanned(plans, client, orderId, { ...options, concurrency })
  const keys = attachments.map((outcome) => ('storageKey' in outcome ? outcome.storageKey : null))
  const emailThread = await put(plans, keys)

  let missingKeys: string[] | null = null
  if (options.verify) {
    const now = await readStored()
    const listed = new Set(now.files.map((file) => file.path))
    const kept = new Set(listStorageKeys(now.messages).filter((key) => listed.has(key)))
    if (!now.isCut) missingKeys = keys.filter((key) => key && !kept.has(key)) as string[]
  }
  return { status: 'stored', orderId, emailThread, attachments, missingKeys }
}

/** Executes the plans, `concurrency` at once. Settles only when no upload is in progress. */
async function uploadPlanned(
  plans: Plan[],
  { files }: Endpoints,
  orderId: string,
  { legacyThreadId, loadAttachment, concurrency, onProgress, signal: stopped }: SyncOptions & { concurrency: number },
) {
  const stop = new AbortController()
  const signal = stopped ? AbortSignal.any([stopped, stop.signal]) : stop.signal
  const outcomes: AttachmentOutcome[] = []
  let finishedCount = 0

  function report({ place }: Plan, progress: Pick<SyncProgress, 'phase' | 'sentBytes' | 'totalBytes' | 'outcome'>) {
    const { messageIndex, attachmentIndex } = place
    try {
      onProgress?.({ messageIndex, attachmentIndex, finishedCount, totalCount: plans.length, ...progress })
    } catch (error) {
      stop.abort(error)
      throw error
    }
  }

  async function store(plan: Plan) {
    if ('outcome' in plan) return plan.outcome
    const { message, attachment } = plan.place
    report(plan, { phase: 'loading', sentBytes: 0, totalBytes: null, outcome: null })
    const data = await loadAttachment(message, attachment, signal)
    const size = sizeOf(data)
    if (size > MAX_FILE_BYTES) return { status: 'too_large', sizeBytes: size } as const
    const contentType = toContentType(attachment.mime_type)
    const request = { fileName: plan.fileName, size, legacyThreadId, ...(contentType && { contentType }) }
    const reportSent = (sentBytes: number, totalBytes: number) =>
      report(plan, { phase: 'uploading', sentBytes, totalBytes, outcome: null })
    const send = async () => {
      const presigned = await files.presign(orderId, request, { signal })
      await files.upload(presigned, data, { onProgress: reportSent, signal })
      return presigned.key
    }
    const storageKey = await send().catch((error) => {
      // The URL can expire during slow attempts: a new one is requested once.
      if (error instanceof ApiError && error.code === 'upload_failed' && error.status === 403) return send()
      throw error
    })
    return { status: 'uploaded', storageKey, sizeBytes: size } as const
  }

  const queue = plans.entries()
  async function work(): Promise<void> {
    for (const [index, plan] of queue) {
      signal.throwIfAborted()
      const { messageIndex, attachmentIndex, attachment } = plan.place
      const filename = typeof attachment.filename === 'string' ? attachment.filename : null
      const settled = await store(plan).catch((error: unknown) => {
        signal.throwIfAborted()
        return { status: 'failed', error } as const
      })
      const outcome: AttachmentOutcome = { messageIndex, attachmentIndex, filename, ...settled }
      outcomes[index] = outcome
      finishedCount += 1
      const totalBytes = 'sizeBytes' in outcome ? outcome.sizeBytes : null
      const sentBytes = outcome.status === 'uploaded' ? outcome.sizeBytes : 0
      report(plan, { phase: 'finished', sentBytes, totalBytes, outcome })
    }
  }
  const settled = await Promise.allSettled(Array.from({ length: Math.min(concurrency, plans.length) }, work))
  for (const worker of settled) if (worker.status === 'rejected') throw worker.reason
  return outcomes
}
