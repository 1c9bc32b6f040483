import { BUDGET_MS, DeadlineError, withDeadline } from '../../kernel/http/deadline.ts'
import { ApiError } from '../../kernel/http/errors.ts'
import { log, nameOf } from '../../kernel/http/log.ts'

/*
 * Contents of threads in the deployment's own R2 bucket, never in a company's storage. Keys begin with `mail/`, which
 * no route of files reaches, since those begin with `orders/`. An object is its content's compressed segments, one
 * behind the other (see `segments.ts`); the database has their lengths.
 *
 * Each object is written once, under a unique key, between two writes of the database: the first announces it, the
 * second names it and fails unless it is still announced. The sweep removes only objects that it has marked before,
 * which ends their announcement: so a late write can never name a removed object.
 */

/** Objects stay this long after the last thread named them: backups name them for 42 days, Time Travel for 30. */
export const REPLACED_MS = 43 * 24 * 3_600_000

export interface StoredObject {
  id: string
  company_id: number
  content_hash: string
  /** The stored bytes of each segment. */
  lengths: readonly number[]
}

/** Parses the object of a row selected with `objectOfThread` of `kernel/db/columns.ts`. */
export function parseObject(row: {
  company_id: number
  content_hash: string
  object: string | null
}): StoredObject | null {
  const { company_id, content_hash, object } = row
  if (object === null) return null
  const { id, lengths } = JSON.parse(object)
  return { id, company_id, content_hash, lengths }
}

export function objectKey({ id, company_id, content_hash }: Omit<StoredObject, 'lengths'>): string {
  return `mail/${company_id}/${content_hash}/${id}`
}

/** Parses a key of {@link objectKey}. */
export function parseObjectKey(key: string) {
  const [, , content_hash = '', id = ''] = key.split('/')
  return { id, content_hash }
}

/** A failure of R2: nothing is changed, and a retry may succeed. */
function unavailable(cause: string): ApiError {
  return new ApiError('unavailable', { headers: { 'Retry-After': '10' }, cause })
}

/**
 * Writes an object, its segments streamed.
 *
 * @throws ApiError 503 when R2 fails or takes too long
 */
export async function putObject(
  bucket: R2Bucket,
  object: StoredObject,
  segments: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
): Promise<void> {
  const { readable, writable } = new FixedLengthStream(sumOf(object.lengths))
  const writer = writable.getWriter()
  const send = async () => {
    for await (const segment of segments) await writer.write(segment)
    await writer.close()
  }
  try {
    await withDeadline(Promise.all([bucket.put(objectKey(object), readable), send()]), BUDGET_MS.storage)
  } catch (error) {
    void writer.abort(error).catch(() => undefined)
    throw unavailable(`R2 did not store mail content: ${nameOf(error)}`)
  }
}

/** Reads the segments of an object in their order. */
export class ObjectReader {
  readonly #lengths: readonly number[]
  readonly #reader: ReadableStreamBYOBReader
  #next: number

  constructor(body: ReadableStream, lengths: readonly number[], first: number) {
    this.#lengths = lengths
    this.#next = first
    this.#reader = body.getReader({ mode: 'byob' })
  }

  /** @throws Error when the object ends too early */
  async read(): Promise<Uint8Array> {
    const length = this.#lengths[this.#next++] ?? 0
    const { value } = await this.#reader.readAtLeast(length, new Uint8Array(length))
    if (value?.length !== length) throw new Error('An object with mail content is too short.')
    return value
  }

  cancel(): void {
    void this.#reader.cancel().catch(() => undefined)
  }
}

/**
 * Opens an object; its body is read on demand.
 *
 * @param first the first needed segment
 * @throws ApiError 503 when R2 fails or takes too long
 */
export async function openObject(bucket: R2Bucket, object: StoredObject, first = 0): Promise<ObjectReader> {
  const key = objectKey(object)
  const range = { offset: sumOf(object.lengths.slice(0, first)) }
  const get = () => withDeadline(bucket.get(key, { range }), BUDGET_MS.storage)
  // A failure of R2 often passes, but a call that hangs has used up the time.
  const found = await get()
    .catch((error: unknown) => (error instanceof DeadlineError ? Promise.reject(error) : get()))
    .catch((error: unknown) => Promise.reject(unavailable(`R2 did not return mail content: ${nameOf(error)}`)))
  if (!found) {
    log('mail_content_missing', { company_id: object.company_id, object_id: object.id }, 'error')
    throw unavailable('R2 does not have mail content that a thread names')
  }
  return new ObjectReader(found.body, object.lengths, first)
}

/** Reads all segments of a small object. @throws ApiError 503 as {@link openObject} */
export async function readObject(bucket: R2Bucket, object: StoredObject): Promise<Uint8Array[]> {
  const reader = await openObject(bucket, object)
  const segments: Uint8Array[] = []
  try {
    for (const _ of object.lengths) segments.push(await withDeadline(reader.read(), BUDGET_MS.storage))
  } catch (error) {
    reader.cancel()
    throw unavailable(`R2 did not return mail content: ${nameOf(error)}`)
  }
  return segments
}

export function sumOf(lengths: readonly number[]): number {
  return lengths.reduce((sum, length) => sum + length, 0)
}
