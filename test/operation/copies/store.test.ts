import { describe, expect, it } from 'vitest'
import {
  BackupError,
  packPart,
  parseManifest,
  parseManifestKey,
  planRemoval,
  unpackPart,
} from '../../../src/operation/copies/store.ts'

const DAY_MS = 86_400_000
const NOW = Date.UTC(2026, 10, 22, 3)

/** The starts of daily backups until a number of days ago, the oldest first. */
const days = (count: number, until = 1) =>
  Array.from({ length: count }, (_, index) => new Date(NOW - (count - 1 - index + until) * DAY_MS).toISOString())

describe('the plan of backups', () => {
  it('keeps each backup for 35 days', () => {
    expect(planRemoval(days(35), NOW)).toEqual([])
    expect(planRemoval(days(40), NOW)).toEqual(days(5, 36))
  })

  it('keeps the newest, however old it is', () => {
    expect(planRemoval(days(3, 60), NOW)).toEqual(days(2, 61))
    expect(planRemoval([], NOW)).toEqual([])
  })
})

describe('the files of a backup', () => {
  it('have their rows and a checksum that finds damage', () => {
    const lines = [
      {
        name: 'payments',
        row: { id: 2, note: 'a\n"b"\u0000 \ud83d\ude00', amount_cents: null },
        of: [1, 3] as [number, number],
      },
      { name: 'taxes', row: { rate: 8.25 } },
    ]
    const { part, bytes } = packPart('backups/1/parts/x/00001.ndjson.gz', lines)
    expect(part).toMatchObject({ bytes: bytes.length, rows: { payments: 1, taxes: 1 } })
    expect(unpackPart(part, bytes)).toEqual(lines)
    bytes[bytes.length - 1] = 255 - (bytes[bytes.length - 1] ?? 0)
    expect(() => unpackPart(part, bytes)).toThrow(BackupError)
  })

  it('are named by time, and nothing else is a manifest', () => {
    const at = '2026-11-22T03:00:00.000Z'
    expect(parseManifestKey(7, `backups/7/manifests/${at}-full.json`)).toBe(at)
    for (const name of [`${at}.json`, `${at}-full.json.bak`, 'x-full.json', `${at}-increment.json`]) {
      expect(parseManifestKey(7, `backups/7/manifests/${name}`)).toBeUndefined()
    }
    expect(() => parseManifest('{}')).toThrow(BackupError)
    expect(() => parseManifest('{')).toThrow(BackupError)
  })
})
