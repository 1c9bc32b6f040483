import type { Version } from '../db/placement.ts'

/** A write without a report has ended after this time: one with a slow body is announced again before its batch. */
const LOST_AFTER_MS = 60_000
/** The id of all writes that are not known one by one. */
const UNKNOWN = 'unknown'

export type StoredWrites = ReturnType<ReadAfterWrite['toStored']>

/** The part of a report that the object prescribes with its admission. */
export interface Receipt {
  /** The id of the write that the reported version contains. */
  write?: string
  /** When this read of the primary began: its version contains the writes lost 60 s before. */
  settledAt?: number
}

export interface Seen extends Receipt {
  database: string
  bookmark: string | null
}

/** Where a read may run: at the primary, at a replica at least as fresh as a bookmark, or with null at any replica. */
export type ReadConstraint = 'primary' | string | null

/** Adds the version that the caller sent. One of another database means that the company moved: only its primary is safe. */
export function tighten(constraint: ReadConstraint, database: string, sent: Version | null): ReadConstraint {
  if (constraint === 'primary' || sent === null) return constraint
  if (sent.database !== database) return 'primary'
  return constraint === null || sent.bookmark > constraint ? sent.bookmark : constraint
}

/**
 * Lets a token read its own writes: reads go to the primary while a write is unsettled, then to any replica that has its
 * bookmark. The first primary read that begins 60 s after a lost write settles it. Bookmarks of D1 sort as text.
 */
export class ReadAfterWrite {
  /** The bookmark is of this database; null while unknown. */
  private database: string | null
  private bookmark: string | null
  /** When unsettled writes began, by id. */
  private readonly unsettled = new Map<string, number>()
  /** Whether further writes need no stored row. */
  private isWriting = false

  constructor(now: number, stored?: StoredWrites) {
    this.database = stored?.database ?? null
    this.bookmark = stored?.bookmark ?? null
    if (stored?.unsettledAt) this.beginUnknown(Math.min(stored.unsettledAt, now))
  }

  /** Bookmarks of the database that the company has left do not compare with those of the new one. */
  follow(database: string, now: number): void {
    if (this.database !== null && this.database !== database) {
      this.bookmark = null
      this.unsettled.clear()
      this.beginUnknown(now)
    }
    this.database = database
  }

  /** @returns the part of its report that settles a write: this one, or lost ones that this read of the primary contains */
  begin(now: number, isWrite: boolean): Receipt | undefined {
    if (!isWrite) {
      const hasLost = this.unsettled.values().some((at) => at <= now - LOST_AFTER_MS)
      return hasLost ? { settledAt: now } : undefined
    }
    this.isWriting = true
    const write = crypto.randomUUID()
    this.unsettled.set(write, now)
    return { write }
  }

  /** A write that was not admitted here, or long ago, may commit from now on. */
  beginUnknown(now: number): void {
    this.unsettled.set(UNKNOWN, now)
  }

  report({ database, bookmark, write, settledAt }: Seen): void {
    this.database ??= database
    if (database !== this.database) return
    if (bookmark !== null && bookmark > (this.bookmark ?? '')) this.bookmark = bookmark
    if (write !== undefined) this.unsettled.delete(write)
    if (settledAt === undefined || bookmark === null) return
    for (const [id, at] of this.unsettled) if (at <= settledAt - LOST_AFTER_MS) this.unsettled.delete(id)
  }

  constraint(): ReadConstraint {
    return this.unsettled.size > 0 ? 'primary' : this.bookmark
  }

  /** The part that survives the eviction of the object. @param isIdle whether the next write will store a row of its own */
  toStored(isIdle: boolean) {
    if (isIdle) this.isWriting = false
    // The row also stands for writes that begin after it.
    const unsettledAt = this.isWriting ? Number.POSITIVE_INFINITY : Math.max(0, ...this.unsettled.values())
    return { database: this.database, bookmark: this.bookmark, unsettledAt }
  }
}
