import type { RequestContext } from '../../context.ts'
import type { Extras } from '../../http/endpoint.ts'
import { releaseBytes, SMALL_BODY_BYTES } from '../../http/memory.ts'
import { type Content, contentText, parseThread } from './input.ts'
import { keepContent, keptContent, knownHash, knowsThread, remember } from './known-content.ts'
import { presentStored, presentWritten } from './present.ts'
import { findVersions } from './queries.ts'
import { hashOf } from './segments.ts'
import { BATCH_BYTES, newThread, storedBytes, touchThread, writeThread } from './write-queries.ts'

/**
 * From here on it costs more to compress and send content that is stored already than to ask what is stored; and a few
 * such bodies would fill what an isolate may keep.
 */
const LARGE_BODY_BYTES = SMALL_BODY_BYTES

/**
 * Begins to read what is stored under this id, when the body to come is large and this isolate does not know. The rate
 * check that follows takes as long, so it costs no time; the body names the mailbox and comes later.
 *
 * @param announcedBytes the length of the body, as far as it is known
 */
export function readVersionsAhead(
  context: RequestContext,
  legacyThreadId: string,
  announcedBytes: number | undefined,
): Promise<void> | undefined {
  const { db, companyId } = context
  const isSmall = announcedBytes !== undefined && announcedBytes < LARGE_BODY_BYTES
  if (isSmall || knowsThread(companyId, legacyThreadId)) return undefined
  return (
    findVersions(db, companyId, legacyThreadId)
      .then((versions) => remember(companyId, legacyThreadId, versions))
      // Only a hint: without it the content is sent, and found to be stored already.
      .catch(() => undefined)
  )
}

/** Stores a whole thread: one batch, in which nothing but the row is written when the content is stored already. */
export async function putThread(
  context: RequestContext,
  legacyThreadId: string,
  body: Uint8Array,
  { lease, prefetched }: Extras,
): Promise<Response> {
  const { companyId } = context
  const isLarge = body.length >= LARGE_BODY_BYTES
  const kept = keptContent(companyId, legacyThreadId)
  const input = parseThread(body, kept?.content)
  const { accountEmail, content } = input
  const hash = kept && isSame(kept.content, content) ? kept.hash : hashOf(contentText(content))
  await prefetched
  const isStored = knownHash(companyId, legacyThreadId, accountEmail) === hash
  const key = { legacyThreadId, accountEmail }
  const seen = () => remember(companyId, legacyThreadId, [{ account_email: accountEmail, content_hash: hash }])

  const touched = isStored ? await touchThread(context, key, input, hash) : undefined
  if (touched) {
    seen()
    if (isLarge) await lease.resize(body.length)
    else keepContent(companyId, legacyThreadId, { content, hash })
    return presentWritten(context, touched, [], input, lease)
  }

  // A hint that was out of date costs a second batch.
  if (isLarge) await lease.resize(Math.min(lease.bytes, body.length + 2 * BATCH_BYTES))
  const thread = await newThread(context, key, input, hash)
  const bytes = storedBytes(thread.segments.filter(({ data }) => data !== null))
  if (isLarge) {
    // What was compressed stands for the body from here on; the batch repeats it as JSON.
    releaseBytes(body)
    await lease.resize(Math.min(lease.bytes, 2 * bytes))
  }
  const { row, otherSegments } = await writeThread(context, thread)
  seen()
  if (!isLarge) return presentWritten(context, row, otherSegments, input, lease)
  await lease.resize(Math.min(lease.bytes, bytes))
  return presentStored(context, row, [...thread.segments, ...otherSegments], lease)
}

/** Whether the scan has found each array again. */
function isSame(kept: Content, sent: Content): boolean {
  return kept.participants === sent.participants && kept.labels === sent.labels && kept.messages === sent.messages
}
