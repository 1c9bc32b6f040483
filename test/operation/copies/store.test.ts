import { describe, expect, it } from 'vitest'
import {
  BackupError,
  type BackupName,
  isFullDue,
  packPart,
  parseManifest,
  parseManifestKey,
  planRemoval,
  planRestore,
  unpackPart,
} from '../../../src/operation/copies/store.ts'

const DAY_MS = 86_400_000
const NOW = Date.UTC(2026, 10, 22, 3)

/** Backups of the last days, the oldest first: `F` full, `i` an increment, a space none. */
function days(kinds: string): BackupName[] {
  return Array.from(kinds).flatMap((kind, index) => {
    const at = new Date(NOW - (kinds.length - index) * DAY_MS).toISOString()
    return kind === ' ' ? [] : [{ at, kind: kind === 'F' ? ('full' as const) : ('increment' as const) }]
  })
}

const kindsOf = (backups: BackupName[]) => backups.map(({ kind }) => (kind === 'full' ? 'F' : 'i')).join('')

describe('the plan of backups', () => {
  it.each([
    ['', true],
    ['F', false],
    ['Fiiiii', false],
    ['Fiiiiii', true],
    ['F      iii', true],
    ['Fiiiiii F', false],
  ])('after the backups "%s" a full one is due: %s', (kinds, isDue) => {
    expect(isFullDue(days(kinds), NOW)).toBe(isDue)
  })

  it('keeps each backup for 35 days, and as long as a kept one needs it', () => {
    const weeks = (count: number) => 'Fiiiiii'.repeat(count)
    expect(planRemoval(days(weeks(5)), NOW)).toEqual([])
    // The oldest of 35 days is the last increment of a week: the week stays as a whole.
    expect(planRemoval(days(`${weeks(5)}Fiiiii`), NOW)).toEqual([])
    expect(kindsOf(planRemoval(days(weeks(6)), NOW))).toBe('Fiiiiii')
    expect(kindsOf(planRemoval(days(weeks(8)), NOW))).toBe(weeks(3))
  })

  it('removes nothing while there is no newer backup', () => {
    expect(planRemoval(days(`Fiii${' '.repeat(60)}`), NOW)).toEqual([])
    expect(planRemoval(days(`iii${' '.repeat(40)}i`), NOW)).toEqual([])
  })

  it('restores a time from the last full backup before it and the increments between', () => {
    const backups = days('iFiiiiiiFi')
    expect(kindsOf(planRestore(backups, NOW))).toBe('Fi')
    expect(kindsOf(planRestore(backups, NOW - 4 * DAY_MS))).toBe('Fiiiii')
    expect(planRestore(backups, NOW - 9.5 * DAY_MS)).toEqual([])
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

  it('are named by time and kind, and nothing else is a manifest', () => {
    const at = '2026-11-22T03:00:00.000Z'
    expect(parseManifestKey(7, `backups/7/manifests/${at}-full.json`)).toEqual({ at, kind: 'full' })
    for (const name of [`${at}.json`, `${at}-full.json.bak`, 'x-full.json', `${at}-other.json`]) {
      expect(parseManifestKey(7, `backups/7/manifests/${name}`)).toBeNull()
    }
    expect(() => parseManifest('{}')).toThrow(BackupError)
    expect(() => parseManifest('{')).toThrow(BackupError)
  })
})
