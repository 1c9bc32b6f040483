import { Buffer } from 'node:buffer'
import { AwsV4Signer } from 'aws4fetch'
import { LAST_INSTANT } from '../../kernel/api/contract.ts'
import { BUDGET_MS } from '../../kernel/http/isolate.ts'
import { type AddressPolicy, callChecked, OutboundError, type OutboundResponse } from '../../kernel/http/outbound.ts'
import { readXml } from '../../kernel/http/xml.ts'
import { encodeKey, encodeStrictly, MAX_KEY_BYTES } from './keys.ts'

export const EXPIRES_SECONDS = 600
const PAGE_SIZE = 1_000
/** A page of the longest keys, every byte percent-encoded, has about 3.5 MB. */
const MAX_PAGE_BYTES = 4 * 1024 * 1024
const MAX_ERROR_BYTES = 64 * 1024
const MAX_XML_DEPTH = 8

export interface Bucket {
  /** The URL without the bucket, which `addressing` adds to the path or to the host. */
  endpoint: string
  name: string
  /** Blank: the signer knows it for hosts of R2 and of amazonaws.com, and takes us-east-1 for others. */
  region: string
  addressing: 'path' | 'virtual'
  accessKeyId: string
  secretAccessKey: string
  addresses: AddressPolicy
}

/** An object as the storage lists it; `changedAt` is in milliseconds since the epoch. */
export type StoredFile = { key: string; sizeBytes: number; changedAt: number }

export type StoredObject = StoredFile & { contentType: string | null }

/** `cursor` continues the listing; it is null on the last page. */
export type FilePage = { files: StoredFile[]; cursor: string | null }

/** A failure of a company's own storage. It holds only the response's status and a well-formed error code. */
export class StorageError extends Error {
  override readonly name = 'StorageError'
  readonly problem: OutboundError['failure'] | 'malformed' | 'refused'
  readonly status: number | null
  /** The storage's own error code, such as `NoSuchBucket`. */
  readonly code: string | null

  constructor(
    problem: StorageError['problem'],
    status: number | null = null,
    code: string | null = null,
    reason = problem === 'refused' ? 'it refused the request' : 'its response is malformed',
  ) {
    super(`The company’s storage failed: ${[reason, status, code].filter((part) => part !== null).join(', ')}`)
    this.problem = problem
    this.status = status
    this.code = code
  }
}

/** The URL of a bucket or of an object in it, in path style or in virtual-host style (the bucket as a host label). */
export function addressOf({ endpoint, name, addressing }: Bucket, key?: string): string {
  const base = endpoint.replace(/(?<!\/)\/+$/, '')
  if (addressing === 'virtual') return `${base.replace('://', () => `://${name}.`)}/${encodeKey(key ?? '')}`
  const address = `${base}/${encodeStrictly(name)}`
  return key === undefined ? address : `${address}/${encodeKey(key)}`
}

/** A storage of files: the deployment's R2, or a company's own, whose failures are {@link StorageError}s. */
export type FileStorage = ReturnType<typeof s3Storage>

/**
 * Amazon S3 API reference; AWS Signature Version 4, presigned by query and otherwise by headers.
 *
 * @param now milliseconds since the epoch
 */
export function s3Storage(bucket: Bucket, now: number) {
  function sign(request: Omit<ConstructorParameters<typeof AwsV4Signer>[0], 'accessKeyId' | 'secretAccessKey'>) {
    const { region, accessKeyId, secretAccessKey } = bucket
    const datetime = new Date(now).toISOString().replace(/[:-]|\.\d{3}/g, '')
    return new AwsV4Signer({ ...request, service: 's3', region, accessKeyId, secretAccessKey, datetime }).sign()
  }

  /** Makes one call. @throws StorageError, or an error of `read` */
  async function call<T>(method: 'GET' | 'HEAD' | 'DELETE', url: string, read: (from: OutboundResponse) => Promise<T>) {
    const { headers } = await sign({ method, url })
    return callChecked(bucket.addresses, { url, method, headers }, BUDGET_MS.storage, read).catch((error) => {
      if (!(error instanceof OutboundError)) throw error
      throw new StorageError(error.failure, null, null, error.message)
    })
  }

  return {
    /** Presigns one PUT of exactly this many bytes and this content type for {@link EXPIRES_SECONDS}, without a call. */
    async presignPut(key: string, contentType: string, sizeBytes: number) {
      const { url } = await sign({
        method: 'PUT',
        url: `${addressOf(bucket, key)}?X-Amz-Expires=${EXPIRES_SECONDS}`,
        // Signed with all headers: otherwise any type and length could be uploaded.
        headers: { 'content-type': contentType, 'content-length': String(sizeBytes) },
        signQuery: true,
        allHeaders: true,
      })
      return url.href
    },

    /** Presigns GETs of a file for as long, with this `Content-Disposition` in the response, without a call. */
    async presignGet(key: string, disposition: string) {
      const query = `X-Amz-Expires=${EXPIRES_SECONDS}&response-content-disposition=${encodeStrictly(disposition)}`
      const { url } = await sign({ method: 'GET', url: `${addressOf(bucket, key)}?${query}`, signQuery: true })
      // The signer writes a space as `+`, which not every storage decodes.
      url.search = Array.from(url.searchParams, (pair) => pair.map(encodeStrictly).join('=')).join('&')
      return url.href
    },

    async head(key: string): Promise<StoredObject | null> {
      const object = await call('HEAD', addressOf(bucket, key), async ({ status, headers }) => {
        if (status === 404) return null
        if (status !== 200) throw new StorageError('refused', status)
        const file = fileOf(key, headers.get('content-length'), headers.get('last-modified'))
        if (!file) throw new StorageError('malformed', status)
        return { ...file, contentType: headers.get('content-type') }
      })
      // A response to HEAD has no error code that tells a missing bucket from a missing file.
      if (!object) await this.list(key, undefined, 1)
      return object
    },

    delete: (key: string) =>
      call('DELETE', addressOf(bucket, key), async (response) => {
        if (response.status === 200 || response.status === 204) return
        const refusal = await refusalOf(response)
        // Some storages say so of a file that is gone, as it is when a lost response is repeated. S3 sends 204.
        if (refusal.status !== 404 || refusal.code !== 'NoSuchKey') throw refusal
      }),

    /** Lists one page of the files with the prefix, by key. @param most files of a page */
    async list(prefix: string, cursor?: string, most = PAGE_SIZE) {
      // Encode strictly, so that the query is sent exactly as it is signed.
      const token = cursor === undefined ? '' : `continuation-token=${encodeStrictly(cursor)}&`
      const query = `${token}encoding-type=url&list-type=2&max-keys=${most}&prefix=${encodeStrictly(prefix)}`
      const page = await call('GET', `${addressOf(bucket)}?${query}`, readPage)
      // A storage that ignores the prefix would show foreign files, and one that repeats its cursor would never end.
      if (page.cursor === cursor || page.files.some(({ key }) => !key.startsWith(prefix))) {
        throw new StorageError('malformed', 200)
      }
      return page
    },
  }
}

async function refusalOf({ status, readText }: OutboundResponse): Promise<StorageError> {
  const code = readText(MAX_ERROR_BYTES).then(readErrorCode)
  return new StorageError('refused', status, await code.catch(() => null))
}

/** A file by its size and time as text; null if one is malformed. */
function fileOf(key: string, size: string | null = '', changed: string | null = ''): StoredFile | null {
  const changedAt = Date.parse(changed ?? '')
  const isValid = /^\d{1,15}$/.test(size ?? '') && changedAt >= 0 && changedAt <= LAST_INSTANT
  return isValid ? { key, sizeBytes: Number(size), changedAt } : null
}

async function readPage(response: OutboundResponse): Promise<FilePage> {
  if (response.status !== 200) throw await refusalOf(response)
  const xml = await response.readText(MAX_PAGE_BYTES)
  try {
    return readObjectList(xml)
  } catch {
    throw new StorageError('malformed', response.status)
  }
}

/**
 * Reads a response of `ListObjectsV2` (S3 API reference), whose keys are percent-encoded for `encoding-type=url`.
 *
 * @throws Error for another text or more than {@link PAGE_SIZE} objects; its message may quote the text: do not log it
 */
export function readObjectList(xml: string): FilePage {
  const { fields, contents } = readFields(xml, 'ListBucketResult')
  // Any other well-formed document must not pass for an empty list.
  if (!fields.has('IsTruncated')) throw new Error('not a list of objects')
  const cursor = fields.get('IsTruncated') === 'true' ? fields.get('NextContinuationToken') : null
  if (cursor === undefined || cursor === '') throw new Error('no continuation token')
  const isEncoded = fields.get('EncodingType') === 'url'
  const files = contents.map((object) => {
    const key = object.get('Key') ?? ''
    // Some storages use form encoding, with "+" for a space; a plus sign itself is always encoded.
    // A copy: a part of the text would keep its page in memory.
    const decoded = isEncoded ? decodeURIComponent(key.replaceAll('+', ' ')) : Buffer.from(key).toString()
    const file = fileOf(decoded, object.get('Size'), object.get('LastModified'))
    // Up to 40 pages are held: of longer keys they would fill the isolate's memory.
    if (key === '' || Buffer.byteLength(decoded) > MAX_KEY_BYTES || !file) throw new Error('a wrong field')
    return file
  })
  return { files, cursor }
}

/** Reads the code of an error response (S3 API reference, "REST error responses"); null if it is not well-formed. */
function readErrorCode(xml: string): string | null {
  const code = readFields(xml, 'Error').fields.get('Code')?.trim() ?? ''
  return /^[A-Za-z0-9]{1,64}$/.test(code) ? code : null
}

/** Reads the fields of the root element and of each `Contents` in it. @throws Error for other XML */
function readFields(xml: string, root: string) {
  const fields = new Map<string, string>()
  const contents: Map<string, string>[] = []
  readXml(xml, MAX_XML_DEPTH, {
    open: (path) => {
      if (path.join('/') !== `${root}/Contents`) return
      if (contents.push(new Map()) > PAGE_SIZE) throw new Error('too many rows')
    },
    close: ([first, name = '', field, deeper], text) => {
      if (first !== root || deeper !== undefined) return
      if (field === undefined) fields.set(name, text)
      else if (name === 'Contents') contents.at(-1)?.set(field, text)
    },
  })
  return { fields, contents }
}
