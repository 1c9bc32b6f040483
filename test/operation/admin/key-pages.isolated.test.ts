import { env } from 'cloudflare:workers'
import { beforeAll, expect, it } from 'vitest'
import { encryptCredentials } from '../../../src/kernel/gate/credentials.ts'
import { ADMIN_TOKEN, adminRequest, adminSend } from '../../support/admin.ts'
import { migrate, mintCompany, sql } from '../../support/app.ts'

beforeAll(migrate)

it('a rotation of the key finds values behind a whole page of unreadable ones', async () => {
  await mintCompany()
  const { id } = await mintCompany({ home: 'DB' })
  await sql(
    `INSERT INTO integrations (company_id, kind, enabled, base_url, credentials, updated_at)
     WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 100)
     SELECT ?, 'kind ' || i, 0, 'https://a.example', 'unreadable', 0 FROM n`,
    id,
  )
  await sql(
    `INSERT INTO webhook_endpoints (company_id, id, url, secret, event_types, enabled, position, created_at, updated_at)
     VALUES (?, 'we_1', 'https://a.example', ?, '[]', 0, 0, 0, 0)`,
    ...[id, await encryptCredentials(env.CREDENTIALS_KEY, id, 'webhook/we_1', { of: 'x' })],
  )
  const keys = `${btoa('n'.repeat(32))},${env.CREDENTIALS_KEY}`
  const sent = adminRequest('POST', '/key-rotation', undefined, { authorization: `Bearer ${ADMIN_TOKEN}` })
  const { body } = await adminSend(sent, { ...env, CREDENTIALS_KEY: keys })
  expect(body).toEqual({ reencrypted: 1, unreadable: 100, remaining: 100 })
})
