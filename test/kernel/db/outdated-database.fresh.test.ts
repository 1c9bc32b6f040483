import { env } from 'cloudflare:workers'
import { afterEach, expect, it } from 'vitest'
import { mintCompany } from '../../support/app.ts'
import { linesOf, logLines } from '../../support/log.ts'

await mintCompany({ home: 'DB_TWO' })
const company = await mintCompany({ home: 'DB_TWO' })
const other = await mintCompany({ home: 'DB' })

const run = (text: string) => env.DB_TWO.prepare(text).run()

/** Time Travel takes a migration of one database back, and not the directory's. */
const TAKE_BACK = 'ALTER TABLE clients RENAME COLUMN tax_exempt_reason TO later'

afterEach(() => run('ALTER TABLE clients RENAME COLUMN later TO tax_exempt_reason'))

it.each([
  ['a read', 'GET', '/clients'],
  ['a write', 'POST', '/clients'],
  ['a conditional write', 'PUT', '/clients/by-external-id/a'],
])('%s in another database than the directory, whose schema is older, is a 503', async (_, method, path) => {
  await run(TAKE_BACK)
  const body = method === 'GET' ? undefined : { company_name: 'Acme' }
  const refused = await company.call(method, path, body)
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '2'])
  expect(JSON.stringify(refused.body)).not.toMatch(/sql|column|d1_/i)
  const lines = linesOf(refused.headers.get('x-request-id'))
  const error = expect.stringMatching(/column.*tax_exempt_reason/)
  expect(lines).toContainEqual(expect.objectContaining({ event: 'unavailable', error }))
  expect(logLines).toContainEqual({ event: 'schema_outdated', database: 'DB_TWO' })
  expect((await other.call(method, path, body)).status).toBeLessThan(300)
})
