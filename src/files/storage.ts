/** How long an upload address is valid, in seconds. */
export const EXPIRES_SECONDS = 600

/** Files on one page of a listing. */
export const PAGE_SIZE = 1_000

/** An object as the storage lists it. */
export interface StoredFile {
  key: string
  sizeBytes: number
  /** Milliseconds since the epoch. */
  changedAt: number
}

export interface FilePage {
  files: StoredFile[]
  /** Give it back for the next page; null on the last one. */
  cursor: string | null
}

/** Where files are kept: the deployment's R2 or a company's own S3-compatible storage. */
export interface FileStorage {
  /**
   * An address that takes one PUT of exactly this many bytes and this content type, for {@link EXPIRES_SECONDS}. Made
   * without asking the storage.
   */
  presignPut(key: string, contentType: string, sizeBytes: number): Promise<string>
  /**
   * At most {@link PAGE_SIZE} files whose key begins so, in the order of their keys.
   *
   * @throws StorageError when a company's own storage fails
   */
  list(prefix: string, cursor?: string): Promise<FilePage>
}

/** What a storage did wrong: it gave no response, one that is no listing, or an error. */
export type StorageProblem = 'timeout' | 'network' | 'malformed' | 'refused'

/** A company's own storage failed. It carries nothing of the storage but a status and an error code of its form. */
export class StorageError extends Error {
  override readonly name = 'StorageError'
  readonly problem: StorageProblem
  readonly status: number | null
  /** The storage's own error code, such as `NoSuchBucket`. */
  readonly code: string | null

  constructor(problem: StorageProblem, status: number | null = null, code: string | null = null) {
    super(`The storage failed: ${[problem, status, code].filter((part) => part !== null).join(' ')}`)
    this.problem = problem
    this.status = status
    this.code = code
  }
}
