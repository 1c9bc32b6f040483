import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Freshness, type StoredFreshness } from '../../../src/kernel/gate/freshness.ts'

const START = 1_000_000_000
const SECOND = 1_000

/** Bookmarks that sort as D1's do. */
const bookmarkOf = (version: number) => String(version).padStart(8, '0')

function open(stored: StoredFreshness | null = null, now = START) {
  return new Freshness('DB', now, stored)
}

describe('the freshness of a token’s reads', () => {
  it('keeps the newest bookmark, in whichever order the reports come', () => {
    const freshness = open()
    const [one, two] = [freshness.beginWrite(START), freshness.beginWrite(START)]
    freshness.report({ database: 'DB', bookmark: bookmarkOf(2), write: two }, START)
    expect(freshness.mark()).toBe('primary')
    freshness.report({ database: 'DB', bookmark: bookmarkOf(1), write: one }, START)
    expect(freshness.mark()).toBe(bookmarkOf(2))
  })

  it('of a write that reports no bookmark is what it was', () => {
    const freshness = open()
    freshness.report({ database: 'DB', bookmark: null, write: freshness.beginWrite(START) }, START)
    expect(freshness.mark()).toBeNull()
  })

  it('replaces a lost report by a read of the primary 60 s later, not earlier', () => {
    const freshness = open()
    freshness.beginWrite(START)
    const early = START + 59 * SECOND
    expect(freshness.hasLost(early)).toBe(false)
    freshness.report({ database: 'DB', bookmark: bookmarkOf(1), settledAt: early }, START)
    expect(freshness.mark()).toBe('primary')
    const late = START + 60 * SECOND
    expect(freshness.hasLost(late)).toBe(true)
    freshness.report({ database: 'DB', bookmark: bookmarkOf(2), settledAt: late }, START)
    expect(freshness.mark()).toBe(bookmarkOf(2))
  })

  it('does not take a write that began meanwhile to be lost', () => {
    const freshness = open()
    freshness.beginWrite(START)
    freshness.beginWrite(START + 30 * SECOND)
    freshness.report({ database: 'DB', bookmark: bookmarkOf(1), settledAt: START + 60 * SECOND }, START)
    expect(freshness.mark()).toBe('primary')
  })

  it('forgets the bookmarks of a database that the company has left, and reads the primary of the other for a minute', () => {
    const freshness = open()
    freshness.report({ database: 'DB', bookmark: bookmarkOf(9) }, START)
    freshness.follow('DB_EU', START)
    expect(freshness.mark()).toBe('primary')
    freshness.report({ database: 'DB', bookmark: bookmarkOf(10) }, START)
    freshness.report({ database: 'DB_EU', bookmark: bookmarkOf(1), settledAt: START + 60 * SECOND }, START)
    expect(freshness.mark()).toBe(bookmarkOf(1))
  })

  it('does not grow with writes whose reports are lost', () => {
    const freshness = open()
    for (let i = 0; i < 5_000; i++) freshness.beginWrite(START)
    freshness.report({ database: 'DB', bookmark: bookmarkOf(1), settledAt: START + 60 * SECOND }, START)
    expect(freshness.mark()).toBe(bookmarkOf(1))
  })

  /** A token's life: writes that commit, reports that arrive or are lost, reads, crashes and evictions. */
  const steps = fc.array(
    fc.oneof(
      {
        weight: 4,
        arbitrary: fc.record({ kind: fc.constant('write' as const), lasts: fc.integer({ min: 0, max: 30 }) }),
      },
      { weight: 4, arbitrary: fc.record({ kind: fc.constant('read' as const), reports: fc.boolean() }) },
      { weight: 4, arbitrary: fc.record({ kind: fc.constant('report' as const) }) },
      {
        weight: 3,
        arbitrary: fc.record({ kind: fc.constant('pass' as const), seconds: fc.integer({ min: 0, max: 90 }) }),
      },
      { weight: 1, arbitrary: fc.record({ kind: fc.constantFrom('crash' as const, 'evict' as const) }) },
    ),
    { maxLength: 200 },
  )

  it('never lets a read miss a write of the token that had been answered', () => {
    fc.assert(
      fc.property(steps, (life) => {
        let now = START
        let version = 0
        let stored: StoredFreshness | null = null
        let freshness = open()
        /** Writes under way or answered, and not reported: when they commit, and as which version. */
        let writes: { number: number; endsAt: number; version: number | null }[] = []
        /** The newest version that an answered write had. */
        let answered = 0
        const commit = () => {
          for (const write of writes) {
            if (write.version !== null || write.endsAt > now) continue
            write.version = ++version
            answered = version
          }
        }
        for (const step of life) {
          commit()
          if (step.kind === 'pass') now += step.seconds * SECOND
          if (step.kind === 'write') {
            const number = freshness.beginWrite(now)
            // As the object does: a row that does not cover the write is stored before it starts.
            if ((stored?.unsettledUntil ?? 0) < now) stored = freshness.toStored(now, false)
            writes.push({ number, endsAt: now + step.lasts * SECOND, version: null })
          }
          if (step.kind === 'report') {
            const done = writes.find((write) => write.version !== null)
            if (done?.version)
              freshness.report({ database: 'DB', bookmark: bookmarkOf(done.version), write: done.number }, START)
            writes = writes.filter((write) => write !== done)
          }
          if (step.kind === 'read') {
            const mark = freshness.mark()
            // The worst replica has nothing but what the mark requires.
            const seen = mark === 'primary' ? version : Number(mark ?? 0)
            expect(seen).toBeGreaterThanOrEqual(answered)
            const settledAt = freshness.hasLost(now) ? now : undefined
            if (settledAt !== undefined && step.reports)
              freshness.report({ database: 'DB', bookmark: bookmarkOf(version), settledAt }, START)
          }
          if (step.kind === 'evict') stored = freshness.toStored(now, true)
          if (step.kind === 'crash' || step.kind === 'evict') freshness = new Freshness('DB', now, stored)
        }
      }),
      { numRuns: 2_000 },
    )
  })
})
