/** How long an upload address is valid, in seconds. */
export const EXPIRES_SECONDS = 600

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
  /** At most 1,000 files whose key begins so, in the order of their keys. */
  list(prefix: string, cursor?: string): Promise<FilePage>
}
