import { env } from 'cloudflare:workers'
import { expect, it } from 'vitest'
import { encryptCredentials } from '../../../src/kernel/db/credentials.ts'
import { adminCall } from '../../support/admin.ts'
import { mintCompany, sql } from '../../support/app.ts'

it('an integration says until when it is paused, and null where it is not', async () => {
  await mintCompany()
  const { id } = await mintCompany({ home: 'DB' })
  for (const kind of ['accounting_sync', 'supplier_b']) {
    await sql(
      `INSERT INTO integrations (company_id, kind, enabled, base_url, credentials, updated_at)
       VALUES (?, ?, 1, 'https://a.example', ?, 0)`,
      ...[id, kind, await encryptCredentials(env.CREDENTIALS_KEY, id, kind, { of: kind })],
    )
  }
  const list = async () => {
    const { body } = await adminCall('GET', `/companies/${id}/integrations`)
    const found: { kind: string; state: string; reason: unknown; paused_until: unknown }[] = body.data
    return found.map(({ kind, state, reason, paused_until }) => [kind, state, reason, paused_until])
  }
  const other = ['supplier_b', 'connected', null, null]
  expect(await list()).toEqual([['accounting_sync', 'connected', null, null], other])
  const until = Date.UTC(2099, 0, 1)
  await sql(
    `INSERT INTO accounting_connections (company_id, remote_account, paused_until, reason) VALUES (?, 'x', ?, 'busy')`,
    ...[id, until],
  )
  expect(await list()).toEqual([['accounting_sync', 'paused', 'busy', new Date(until).toISOString()], other])
  await sql('UPDATE accounting_connections SET paused_until = 1 WHERE company_id = ?', id)
  expect(await list()).toEqual([['accounting_sync', 'connected', null, null], other])
})
