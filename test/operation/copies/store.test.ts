import { env } from 'cloudflare:workers'
import { describe, expect, it } from 'vitest'
import {
  BackupError,
  listBackups,
  openParts,
  planRemoval,
  readManifest,
  readPart,
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
  const at = '2026-11-22T03:00:00.000Z'
  const storeOf = (companyId: number) => ({ bucket: env.BACKUPS, companyId })

  it('have their rows and a checksum that finds damage', async () => {
    const store = storeOf(900_001)
    const lines = [
      { name: 'payments', row: { id: 2, note: 'a\n"b"\u0000 \ud83d\ude00', amount_cents: null } },
      { name: 'taxes', row: { rate: 8.25 } },
    ]
    const writer = openParts(store, { at, parts: 0 })
    for (const { name, row } of lines) await writer.add(name, [row])
    const [part = expect.fail('no part')] = await writer.take()
    const bytes = (await (await env.BACKUPS.get(part.key))?.bytes()) ?? expect.fail('no file')
    expect(part).toMatchObject({ bytes: bytes.length, rows: { payments: 1, taxes: 1 } })
    expect(await readPart(store, part)).toEqual(lines)
    bytes[bytes.length - 1] = 255 - (bytes[bytes.length - 1] ?? 0)
    await env.BACKUPS.put(part.key, bytes)
    await expect(readPart(store, part)).rejects.toThrow(BackupError)
  })

  it('can be read where JSON escapes every character of them', async () => {
    const store = storeOf(900_003)
    const writer = openParts(store, { at, parts: 0 })
    await writer.add('payments', new Array(60).fill({ note: '\u0001'.repeat(100_000) }))
    const parts = await Promise.all((await writer.take()).map((part) => readPart(store, part)))
    expect(parts.flat()).toHaveLength(60)
  })

  it('are named by time, and nothing else is a manifest', async () => {
    const store = storeOf(900_002)
    const names = ['-full.json', '.json', '-full.json.bak', '-increment.json'].map((end) => at + end)
    for (const name of [...names, 'x-full.json']) {
      await env.BACKUPS.put(`backups/900002/manifests/${name}`, '{}')
    }
    expect(await listBackups(store)).toEqual([at])
    await expect(readManifest(store, at)).rejects.toThrow(BackupError)
    await env.BACKUPS.put(`backups/900002/manifests/${at}-full.json`, '{')
    await expect(readManifest(store, at)).rejects.toThrow(BackupError)
  })
})
