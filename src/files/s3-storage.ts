import { BUDGET_MS } from '../http/deadline.ts'
import { callOutside, OutboundError, type OutboundResponse } from '../http/outbound.ts'
import { encodeStrictly } from './keys.ts'
import { readErrorCode, readObjectList } from './object-list.ts'
import { addressOf, type Bucket, presignPut, signGet } from './presign.ts'
import { type FilePage, type FileStorage, PAGE_SIZE, StorageError } from './storage.ts'

/** A page of the longest keys, each byte of them percent-encoded, has about 3.5 MB. */
const MAX_PAGE_BYTES = 4 * 1024 * 1024

const MAX_ERROR_BYTES = 64 * 1024

/**
 * A company's own S3-compatible storage.
 *
 * @param now milliseconds since the epoch
 */
export function s3Storage(bucket: Bucket, now: number): FileStorage {
  return {
    presignPut: (key, contentType, sizeBytes) => presignPut(bucket, key, contentType, sizeBytes, now),
    list: (prefix, cursor) => listObjects(bucket, now, prefix, PAGE_SIZE, cursor),
  }
}

/**
 * Lists one page of a bucket's objects by a signed request.
 *
 * @throws StorageError
 */
export async function listObjects(
  bucket: Bucket,
  now: number,
  prefix: string,
  maxKeys: number,
  cursor?: string,
): Promise<FilePage> {
  const query = {
    ...(cursor !== undefined && { 'continuation-token': cursor }),
    'encoding-type': 'url',
    'list-type': '2',
    'max-keys': String(maxKeys),
    prefix,
  }
  const pairs = Object.entries(query).map(([name, value]) => `${name}=${encodeStrictly(value)}`)
  const url = `${addressOf(bucket)}?${pairs.join('&')}`
  const page = await fetchPage(url, await signGet(bucket, url, now))
  // A storage that ignores the prefix or stands still would show foreign files or never end.
  if (page.cursor === cursor || page.files.some(({ key }) => !key.startsWith(prefix))) {
    throw new StorageError('malformed', 200)
  }
  return page
}

async function fetchPage(url: string, headers: Headers): Promise<FilePage> {
  try {
    return await callOutside({ url, method: 'GET', headers }, BUDGET_MS.storage, readPage)
  } catch (error) {
    if (!(error instanceof OutboundError)) throw error
    const { failure } = error
    throw new StorageError(failure === 'timeout' || failure === 'network' ? failure : 'malformed')
  }
}

async function readPage({ status, readText }: OutboundResponse): Promise<FilePage> {
  if (status !== 200) {
    const code = await readText(MAX_ERROR_BYTES).then(readErrorCode, () => null)
    throw new StorageError('refused', status, code)
  }
  const xml = await readText(MAX_PAGE_BYTES)
  try {
    return readObjectList(xml)
  } catch {
    throw new StorageError('malformed', status)
  }
}
