import { BUDGET_MS, withDeadline } from '../http/deadline.ts'
import { ApiError } from '../http/errors.ts'
import { encodeStrictly } from './keys.ts'
import { readObjectList } from './object-list.ts'
import { addressOf, type Bucket, presignPut, signGet } from './presign.ts'
import type { FilePage, FileStorage } from './storage.ts'

const PAGE_SIZE = 1_000

/** A page of the longest keys, each byte of them percent-encoded, has about 3.5 MB. */
const MAX_ANSWER_BYTES = 8 * 1024 * 1024

/**
 * A company's own S3-compatible storage.
 *
 * `list` throws ApiError 502 when the storage fails, refuses its keys, or answers what is no listing.
 *
 * @param now milliseconds since the epoch
 */
export function s3Storage(bucket: Bucket, now: number): FileStorage {
  return {
    presignPut: (key, contentType, sizeBytes) => presignPut(bucket, key, contentType, sizeBytes, now),

    async list(prefix, cursor) {
      const query = {
        ...(cursor !== undefined && { 'continuation-token': cursor }),
        'encoding-type': 'url',
        'list-type': '2',
        'max-keys': String(PAGE_SIZE),
        prefix,
      }
      const pairs = Object.entries(query).map(([name, value]) => `${name}=${encodeStrictly(value)}`)
      const page = await fetchPage(bucket, `${addressOf(bucket)}?${pairs.join('&')}`, now)
      // A storage that ignores the prefix or stands still would show foreign files or never end.
      if (page.cursor === cursor || page.files.some(({ key }) => !key.startsWith(prefix))) throw unavailable()
      return page
    },
  }
}

async function fetchPage(bucket: Bucket, url: string, now: number): Promise<FilePage> {
  const response = await fetchOnce(url, await signGet(bucket, url, now))
  if (response.status === 401 || response.status === 403) {
    await response.body?.cancel()
    throw new ApiError('upstream_failed', {
      message: 'The storage of the company refuses its keys.',
      details: { reason: 'supplier_rejected_credentials' },
    })
  }
  if (response.status !== 200) {
    await response.body?.cancel()
    throw unavailable(`It answered ${response.status}.`)
  }
  try {
    return readObjectList(await withDeadline(readText(response), BUDGET_MS.storage))
  } catch {
    throw unavailable('It answered something that is no list of objects.')
  }
}

/** Never follows a redirect: the request is signed for one host. */
async function fetchOnce(url: string, headers: Headers): Promise<Response> {
  try {
    return await fetch(url, { headers, redirect: 'manual', signal: AbortSignal.timeout(BUDGET_MS.storage) })
  } catch {
    throw unavailable()
  }
}

async function readText(response: Response): Promise<string> {
  if (!response.body) return ''
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: false })
  let text = ''
  let readBytes = 0
  for await (const chunk of response.body) {
    readBytes += chunk.byteLength
    if (readBytes > MAX_ANSWER_BYTES) throw new Error('too long')
    text += decoder.decode(chunk, { stream: true })
  }
  return text + decoder.decode()
}

function unavailable(more = ''): ApiError {
  return new ApiError('upstream_failed', {
    message: `The storage of the company failed. ${more}`.trim(),
    details: { reason: 'supplier_unavailable' },
  })
}
