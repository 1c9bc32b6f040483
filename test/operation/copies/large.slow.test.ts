import { env } from 'cloudflare:workers'
import { expect, it, vi } from 'vitest'
import { readPart } from '../../../src/operation/copies/store.ts'
import { sql } from '../../support/app.ts'
import { fillCompany } from '../../support/fill-company.ts'
import { backUp, manifestsOf, restore, rowsOf, wipe } from './support.ts'

it('a company with 5,000 rows in every table is backed up in parts of a few megabytes, and restored', async () => {
  const { id } = await fillCompany()
  const before = await rowsOf(id)
  // With a stopped clock it is one run: at its end a run writes what it has as a smaller part.
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() })
  await backUp(id)
  vi.useRealTimers()
  const [manifest] = await manifestsOf(id)
  const parts = manifest?.parts ?? []
  expect(parts.length).toBeGreaterThan(2)
  for (const part of parts.slice(0, -1)) {
    const lines = await readPart({ bucket: env.BACKUPS, companyId: id }, part)
    const characters = lines.reduce((sum, line) => sum + JSON.stringify(line).length, 0)
    expect([part.key, characters > 2_000_000, characters < 12_000_000]).toEqual([part.key, true, true])
  }
  await wipe(id)
  expect(await restore(id, new Date().toISOString())).toMatchObject({ done: true, differences: [] })
  const after = await rowsOf(id)
  for (const table of ['clients', 'orders', 'invoices', 'invoice_items', 'payments', 'artworks', 'email_threads']) {
    expect([table, after[table]]).toEqual([table, before[table]])
  }
  expect(await sql('SELECT client_count, order_count FROM companies WHERE id = ?', id)).toEqual([
    { client_count: 5_000, order_count: 5_000 },
  ])
  expect(await env.BACKUPS.head(parts[0]?.key ?? '')).not.toBeNull()
}, 600_000)
