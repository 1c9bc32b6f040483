import { env } from 'cloudflare:workers'
import { describe, expect, it } from 'vitest'
import { BackupError, listBackups, openParts, readManifest, readPart } from '../../../src/operation/copies/store.ts'

describe('the files of a backup', () => {
  const at = '2026-11-22T03:00:00.000Z'
  const storeOf = (companyId: number) => ({ bucket: env.BACKUPS, companyId })

  it('can be read where JSON escapes every character of them', async () => {
    const store = storeOf(900_003)
    const writer = openParts(store, { at, parts: 0 })
    const rows = [{ id: 2, note: 'a\n"b"\u0000 \ud83d\ude00', amount_cents: null }]
    rows.push(...new Array(60).fill({ note: '\u0001'.repeat(100_000) }))
    await writer.add('payments', rows)
    const parts = await Promise.all((await writer.take()).map((part) => readPart(store, part)))
    expect(parts.flat()).toEqual(rows.map((row) => ({ name: 'payments', row })))
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
