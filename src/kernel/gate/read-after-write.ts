import type { Version } from '../db/placement.ts'

/** A write without a report has ended after this time: a slow body is announced again, see `RateLimiter.report`. */
const LOST_AFTER_MS = 60_000
/** More unsettled writes than this are followed as one. */
const MAX_UNSETTLED = 1_000
/** The number of writes that this instance does not know one by one. */
const UNKNOWN = 0

/** The part that survives the eviction of the object. */
export interface StoredWrites {
  /** Its bookmarks are of this database; null while unknown. */
  database: string | null
  bookmark: string | null
  /** Whether a write may be unsettled, begun before this row or after it. */
  isUnsettled: boolean
}

/** The part of a report that the object prescribes with its admission. */
export interface Receipt {
  /** The numbers of writes that the reported version contains. */
  writes?: number[]
  /** When this read of the primary began: its version contains the writes lost 60 s before. */
  settledAt?: number
}

/** The version of a database that a request has read or written. */
export interface Seen extends Receipt {
  database: string
  bookmark: string | null
  /** Whether a write of which the object does not know failed, and may still commit. */
  mayCommit?: boolean
}

/** Joins two reports into one with the newer bookmark. */
export function merge(before: Seen | undefined, seen: Seen): Seen {
  const mayCommit = before?.mayCommit === true || seen.mayCommit === true
  if (before?.database !== seen.database) return { ...seen, mayCommit }
  const bookmark = (before.bookmark ?? '') > (seen.bookmark ?? '') ? before.bookmark : seen.bookmark
  return { ...seen, bookmark, writes: [...(before.writes ?? []), ...(seen.writes ?? [])], mayCommit }
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
  private database: string | null
  private bookmark: string | null
  /** When unsettled writes began, by number. */
  private readonly unsettled = new Map<number, number>()
  private nextNumber: number
  /** Whether further writes need no stored row. */
  private isWriting = false

  constructor(now: number, stored?: StoredWrites) {
    this.database = stored?.database ?? null
    this.bookmark = stored?.bookmark ?? null
    if (stored?.isUnsettled) this.unsettled.set(UNKNOWN, now)
    // Higher than every number of an earlier instance.
    this.nextNumber = now * 1_000
  }

  /** Bookmarks of the database that the company has left do not compare with those of the new one. */
  follow(database: string, now: number): void {
    if (this.database !== null && this.database !== database) {
      this.bookmark = null
      this.forgetNumbers(now)
    }
    this.database = database
  }

  /** @returns the part of its report that settles a write: this one, or lost ones that this read of the primary contains */
  begin(now: number, isWrite: boolean): Receipt | undefined {
    if (isWrite) return { writes: [this.beginWrite(now)] }
    const hasLost = this.unsettled.values().some((at) => at <= now - LOST_AFTER_MS)
    return hasLost ? { settledAt: now } : undefined
  }

  /** @param number of a write that was announced before */
  beginWrite(now: number, number = this.nextNumber++): number {
    this.isWriting = true
    if (this.unsettled.size >= MAX_UNSETTLED) this.forgetNumbers(now)
    this.unsettled.set(number, now)
    return number
  }

  report({ database, bookmark, writes = [], settledAt, mayCommit }: Seen, now: number): void {
    this.database ??= database
    if (database !== this.database) return
    if (bookmark !== null && bookmark > (this.bookmark ?? '')) this.bookmark = bookmark
    if (mayCommit) this.unsettled.set(UNKNOWN, now)
    for (const number of writes) this.unsettled.delete(number)
    if (settledAt === undefined || bookmark === null) return
    for (const [number, at] of this.unsettled) if (at <= settledAt - LOST_AFTER_MS) this.unsettled.delete(number)
  }

  constraint(): ReadConstraint {
    return this.unsettled.size > 0 ? 'primary' : this.bookmark
  }

  /** @param isIdle whether the next write will store a row of its own */
  toStored(isIdle: boolean): StoredWrites {
    if (isIdle) this.isWriting = false
    return { database: this.database, bookmark: this.bookmark, isUnsettled: this.isWriting || this.unsettled.size > 0 }
  }

  private forgetNumbers(now: number): void {
    this.unsettled.clear()
    this.unsettled.set(UNKNOWN, now)
  }
}
