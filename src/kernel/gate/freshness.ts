/** After so long a write that was not reported has ended: one whose body arrives for longer is renewed. */
const LOST_AFTER_MS = 60_000
/** A stored row covers the writes that begin within so long after it. */
const COVERS_MS = 60_000

/** Writes whose reports are awaited one by one; more of them are taken to be lost. */
const MAX_OPEN = 1_000

/** What survives the eviction of the object. */
export interface StoredFreshness {
  /** Whose bookmarks these are. */
  database: string
  bookmark: string | null
  /** Writes that began until then may be unreported; null where all were. */
  unsettledUntil: number | null
}

/** What a request has seen of a database. */
export interface Seen {
  database: string
  bookmark: string | null
  /** The write that contains, by its number. */
  write?: number
  /** When the read began, at the primary, whose bookmark replaces a lost report. */
  settledAt?: number
  /** The number of a write that is about to begin, long after it was announced. */
  renewed?: number
  /** Whether a write that was not announced may happen still. */
  isUnknown?: boolean
}

/** What two requests have seen: the newest bookmark is enough. */
export function merge(before: Seen | undefined, seen: Seen): Seen {
  const isNewer = before?.database === seen.database && (before.bookmark ?? '') > (seen.bookmark ?? '')
  const isUnknown = seen.isUnknown === true || before?.isUnknown === true
  return { ...seen, bookmark: isNewer ? before.bookmark : seen.bookmark, isUnknown }
}

/** How fresh a token's next read must be: of the primary, at least a bookmark, or null for any replica. */
export type Mark = 'primary' | string | null

/**
 * What one token wrote: which writes have begun and not reported how fresh a read must be to contain them, and the newest
 * bookmark reported. A write whose report was lost has ended after 60 s; then the first read of the primary, whose own
 * bookmark contains it, replaces its report. Bookmarks of D1 sort as text.
 */
export class Freshness {
  private database: string
  private bookmark: string | null
  /** When writes began that are not reported, by their number. */
  private readonly open = new Map<number, number>()
  /** Until when unreported writes may have begun that this instance does not know, or null. */
  private unknownUntil: number | null
  private lastWriteAt = Number.NEGATIVE_INFINITY
  private nextNumber: number

  constructor(database: string, now: number, stored: StoredFreshness | null) {
    this.database = stored?.database ?? database
    this.bookmark = stored?.bookmark ?? null
    const unsettled = stored?.unsettledUntil ?? null
    this.unknownUntil = unsettled === null ? null : Math.min(unsettled, now)
    // Numbers of an earlier instance are lower.
    this.nextNumber = now * 1_000
    this.follow(database, now)
  }

  /** The bookmarks of one database say nothing of another one, to which the company moved. */
  follow(database: string, now: number): void {
    if (database === this.database) return
    this.database = database
    this.bookmark = null
    this.open.clear()
    this.unknownUntil = now
  }

  /** @returns the number by which the write is reported */
  beginWrite(now: number): number {
    this.lastWriteAt = now
    if (this.open.size >= MAX_OPEN) {
      this.open.clear()
      this.unknownUntil = now
    }
    this.open.set(this.nextNumber, now)
    return this.nextNumber++
  }

  report({ database, bookmark, write, settledAt, renewed, isUnknown }: Seen, now: number): void {
    if (database !== this.database) return
    if (bookmark !== null && (this.bookmark === null || bookmark > this.bookmark)) this.bookmark = bookmark
    if (renewed !== undefined) {
      this.lastWriteAt = now
      this.open.set(renewed, now)
    }
    if (isUnknown) this.unknownUntil = now
    if (write !== undefined) this.open.delete(write)
    if (settledAt === undefined || bookmark === null) return
    const lostBefore = settledAt - LOST_AFTER_MS
    for (const [number, at] of this.open) if (at <= lostBefore) this.open.delete(number)
    if (this.unknownUntil !== null && this.unknownUntil <= lostBefore) this.unknownUntil = null
  }

  mark(): Mark {
    return this.isUnsettled() ? 'primary' : this.bookmark
  }

  /** Whether a read of the primary that begins now replaces a lost report. */
  hasLost(now: number): boolean {
    const times = [...this.open.values(), ...(this.unknownUntil === null ? [] : [this.unknownUntil])]
    return times.some((at) => at <= now - LOST_AFTER_MS)
  }

  private isUnsettled(): boolean {
    return this.open.size > 0 || this.unknownUntil !== null
  }

  /** @param isIdle whether no write is expected before the next row is stored */
  toStored(now: number, isIdle: boolean): StoredFreshness {
    const { database, bookmark } = this
    const latest = Math.max(this.unknownUntil ?? Number.NEGATIVE_INFINITY, ...this.open.values())
    const settled = this.isUnsettled() ? latest : null
    const isWriting = !isIdle && this.lastWriteAt > now - COVERS_MS
    return { database, bookmark, unsettledUntil: isWriting ? now + COVERS_MS : settled }
  }
}
