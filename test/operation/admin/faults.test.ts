import { env } from 'cloudflare:workers'
import { beforeEach, describe, expect, it } from 'vitest'
import type { Env } from '../../../src/env.ts'
import type { Contract } from '../../../src/kernel/api/contract.ts'
import { openResolver } from '../../delivery/webhooks/support.ts'
import { adminCall, adminCallWith } from '../../support/admin.ts'
import { mintCompany, sql } from '../../support/app.ts'
import { adminContracts, documentationOf, exampleOf, nameOf } from '../../support/endpoints.ts'
import { insert, insertEndpoint } from '../../support/rows.ts'
import { stopTime } from '../../support/time.ts'
import { wrapBindings } from '../../support/wrap-bindings.ts'
import { bindObject } from '../copies/support.ts'

/*
 * Every endpoint of the administration API while its database fails at each of its batches: no response but an error of
 * the one shape, and no change without its entry in the log.
 */
const FAILURES = ['D1_ERROR: out of order', 'D1_ERROR: D1 DB is overloaded. Too many requests queued.']
const all = adminContracts.map((contract): [string, Contract] => [nameOf(contract), contract])

/** Those of the Worker, with a resolver that knows the documented address. */
const bindings = { ...env }

// An isolate checks the schema every 30 seconds.
beforeEach(async () => {
  stopTime()
  await adminCall('GET', '/me')
})
bindings.WEBHOOK_RESOLVER = await openResolver({ 'hooks.ridgeline.example': '1.1.1.1' })

/** The documented example, of a new company with a token and, where the path names one, a webhook endpoint that was sent one change. */
async function makeRequest(contract: Contract) {
  const { id } = await mintCompany()
  const [token] = await sql<{ id: number }>('SELECT id FROM api_tokens WHERE company_id = ?', id)
  const { endpoint_id } = documentationOf(contract).example.params ?? {}
  if (endpoint_id) {
    await insertEndpoint(id, endpoint_id, { position: 1 })
    const change = { company_id: id, sequence: 1, type: 'clients', entity_id: '1', operation: 'create' }
    await insert('changes', { ...change, version: 1, at: Date.UTC(2026, 2, 1, 12) })
  }
  const params = { company_id: String(id), token_id: String(token?.id) }
  const { path, body: documented } = exampleOf(contract, params)
  const body = documented && JSON.parse(JSON.stringify(documented))
  // A seed file names its company too.
  if (body?.file) body.file.company.id = id
  return (bindings: Env) => adminCallWith(bindings, contract.method, path, body)
}

const logged = async () => (await sql('SELECT * FROM admin_log')).length

describe.each(all)('%s', (_, contract) => {
  it('fails whole while a batch of the database fails', async () => {
    let batches = 0
    const counting = wrapBindings(bindings, (name, work) => {
      if (name === 'DB.batch') batches++
      return work()
    })
    const first = await makeRequest(contract)
    expect((await first(counting)).status).toBeLessThan(500)

    let request = contract.method === 'GET' ? first : await makeRequest(contract)
    for (let failing = 1; failing <= batches; failing++) {
      for (const message of FAILURES) {
        // Only a request whose first batches succeed may change anything.
        if (failing > 1 && contract.method !== 'GET') request = await makeRequest(contract)
        const before = await logged()
        let batch = 0
        let failed = 0
        const spoilt = wrapBindings(bindings, (name, work) => {
          if (name !== 'DB.batch' || ++batch < failing) return work()
          failed++
          return Promise.reject(new Error(message))
        })
        const sent = request(spoilt)
        // Behind its beginning a stream is cut off.
        const result = await (contract.mediaType ? sent.catch(() => null) : sent)
        expect(failed).toBeGreaterThan(0)
        if (!result) continue
        expect(result.status).toBe(503)
        const details = { documentation_url: expect.any(String) }
        expect(result.body.error).toMatchObject({ code: 'internal_error', details })
        if (failing === 1) expect(await logged()).toBe(before)
      }
    }
  })

  it('succeeds when a first batch of the database fails once', async () => {
    const request = await makeRequest(contract)
    let batch = 0
    const spoilt = wrapBindings(bindings, (name, work) =>
      name === 'DB.batch' && ++batch === 1 ? Promise.reject(new Error('D1_ERROR: Network connection lost.')) : work(),
    )
    expect((await request(spoilt)).status).toBeLessThan(500)
  })
})

it.each(['POST /companies', 'POST /companies/ID/move'])(
  '%s is refused for a database that has no schema yet',
  async (name) => {
    const { id } = await mintCompany({ home: 'DB' })
    const [path, body] = name.endsWith('move') ? [`/companies/${id}/move`, {}] : ['/companies', { id: id + 500_000 }]
    const empty = wrapBindings(env, (call, work) =>
      call.startsWith('DB_TWO.')
        ? Promise.reject(new Error('D1_ERROR: no such table: d1_migrations: SQLITE_ERROR'))
        : work(),
    )
    await bindObject(id, empty)
    const response = await adminCallWith(empty, 'POST', path, { ...body, database: 'DB_TWO' })
    const message =
      'The database has an older schema: first run `npm run migrate`, for a deployment `npm run migrate -- --env NAME`'
    expect([response.status, response.body.error.message]).toEqual([409, message])
  },
)
