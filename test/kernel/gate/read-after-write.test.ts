import fc from 'fast-check'
import { expect, it } from 'vitest'
import { ReadAfterWrite, type Receipt, type StoredWrites } from '../../../src/kernel/gate/read-after-write.ts'

const START = 1_000_000_000
const SECOND = 1_000

/** Bookmarks that sort as D1's do. */
const bookmarkOf = (version: number) => String(version).padStart(8, '0')

function open(stored?: StoredWrites, now = START) {
  const writes = new ReadAfterWrite(now, stored)
  writes.follow('DB', now)
  return writes
}

/** What the object prescribes for the report of a read that begins now. */
const receiptOfRead = (writes: ReadAfterWrite, now: number) => writes.begin(now, false)

it('the reads of a token that writes keeps the newest bookmark, in whichever order the reports come', () => {
  const writer = open()
  const [one, two] = [writer.begin(START, true), writer.begin(START, true)]
  writer.report({ database: 'DB', bookmark: bookmarkOf(2), ...two })
  expect(writer.constraint()).toBe('primary')
  writer.report({ database: 'DB', bookmark: bookmarkOf(1), ...one })
  expect(writer.constraint()).toBe(bookmarkOf(2))
})

it('the reads of a token that writes are where they were behind a write that reports no bookmark', () => {
  const writer = open()
  writer.report({ database: 'DB', bookmark: null, ...writer.begin(START, true) })
  expect(writer.constraint()).toBeNull()
})

it('the reads of a token that writes replaces lost reports by one read of the primary 60 s later, not earlier', () => {
  const writer = open()
  for (let writes = 0; writes < 5_000; writes++) writer.begin(START, true)
  const early = START + 59 * SECOND
  expect(receiptOfRead(writer, early)).toBeUndefined()
  writer.report({ database: 'DB', bookmark: bookmarkOf(1), settledAt: early })
  expect(writer.constraint()).toBe('primary')
  const late = START + 60 * SECOND
  const receipt = receiptOfRead(writer, late)
  expect(receipt).toEqual({ settledAt: late })
  writer.report({ database: 'DB', bookmark: bookmarkOf(2), ...receipt })
  expect(writer.constraint()).toBe(bookmarkOf(2))
})

it('the reads of a token that writes does not take a write that began meanwhile to be lost', () => {
  const writer = open()
  writer.begin(START, true)
  writer.begin(START + 30 * SECOND, true)
  writer.report({ database: 'DB', bookmark: bookmarkOf(1), settledAt: START + 60 * SECOND })
  expect(writer.constraint()).toBe('primary')
})

it('the reads of a token that writes forgets the bookmarks of a database that the company has left, and reads the primary of the other for a minute', () => {
  const writer = open()
  writer.report({ database: 'DB', bookmark: bookmarkOf(9) })
  writer.follow('DB_EU', START)
  expect(writer.constraint()).toBe('primary')
  writer.report({ database: 'DB', bookmark: bookmarkOf(10) })
  writer.report({ database: 'DB_EU', bookmark: bookmarkOf(1), settledAt: START + 60 * SECOND })
  expect(writer.constraint()).toBe(bookmarkOf(1))
})

it('the reads of a token that writes reads the primary for a minute after a lost write, also where its object is evicted within each', () => {
  let now = START
  let writer = open()
  writer.begin(now, true)
  for (let evictions = 0; evictions < 2; evictions++) {
    writer = open(writer.toStored(true), now)
    expect(writer.constraint()).toBe('primary')
    now += 30 * SECOND
  }
  writer = open(writer.toStored(true), now)
  const receipt = receiptOfRead(writer, now)
  writer.report({ database: 'DB', bookmark: bookmarkOf(1), ...receipt })
  expect(writer.constraint()).toBe(bookmarkOf(1))
})

/** A token's life: writes that commit, reports that arrive or are lost, reads, crashes and evictions. */
const steps = fc.array(
  fc.oneof(
    { weight: 4, arbitrary: fc.record({ kind: fc.constant('write' as const), lasts: fc.nat(30) }) },
    { weight: 4, arbitrary: fc.record({ kind: fc.constant('read' as const), reports: fc.boolean() }) },
    { weight: 4, arbitrary: fc.record({ kind: fc.constant('report' as const) }) },
    { weight: 3, arbitrary: fc.record({ kind: fc.constant('pass' as const), seconds: fc.nat(90) }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constantFrom('crash' as const, 'evict' as const) }) },
  ),
  { maxLength: 200 },
)

it('the reads of a token that writes never lets a read miss a write of the token that had been answered', () => {
  fc.assert(
    fc.property(steps, (life) => {
      let now = START
      let version = 0
      let stored: StoredWrites | undefined
      let writer = open()
      /** Writes under way or answered, and not reported: when they commit, and as which version. */
      let writes: { receipt: Receipt | undefined; endsAt: number; version: number | null }[] = []
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
          const receipt = writer.begin(now, true)
          // As the object does: a row that does not cover the write is stored before it starts.
          const row = writer.toStored(false)
          if (row.unsettledAt > (stored?.unsettledAt ?? 0)) stored = row
          writes.push({ receipt, endsAt: now + step.lasts * SECOND, version: null })
        }
        if (step.kind === 'report') {
          const done = writes.find((write) => write.version !== null)
          if (done?.version) writer.report({ database: 'DB', bookmark: bookmarkOf(done.version), ...done.receipt })
          writes = writes.filter((write) => write !== done)
        }
        if (step.kind === 'read') {
          const constraint = writer.constraint()
          // The worst replica has nothing but what the constraint requires.
          const seen = constraint === 'primary' ? version : Number(constraint ?? 0)
          expect(seen).toBeGreaterThanOrEqual(answered)
          const receipt = receiptOfRead(writer, now)
          if (receipt && step.reports) writer.report({ database: 'DB', bookmark: bookmarkOf(version), ...receipt })
        }
        if (step.kind === 'evict') stored = writer.toStored(true)
        if (step.kind === 'crash' || step.kind === 'evict') writer = open(stored, now)
      }
    }),
    { numRuns: 2_000 },
  )
})
