import { env } from 'cloudflare:workers'
import { expect, it } from 'vitest'
import { mintCompany, mintToken, request, send } from '../../support/app.ts'
import { linesOf } from '../../support/log.ts'
import { meterBindings } from '../../support/meter.ts'
import { wrapBindings } from '../../support/wrap-bindings.ts'

const company = await mintCompany()
await company.call('POST', '/clients', { company_name: 'Acme' })

async function lineOf(sent: Request, bindings = env) {
  const { headers } = await send(sent, { env: bindings })
  return linesOf(headers.get('x-request-id')).find(({ event }) => event === 'request')
}

it('has the rows that the request read and wrote and its database time', async () => {
  const meter = meterBindings(env)
  const token = await mintToken(company.id)
  const line = await lineOf(request(token, 'GET', '/clients'), meter.env)
  // The last use is written after the response, one row of the table and none of an index.
  const { rowsRead, rowsWritten } = meter.take()
  expect(line?.rows_read).toBeGreaterThanOrEqual(3)
  expect(line?.rows_read).toBeLessThanOrEqual(rowsRead)
  expect(line).toMatchObject({ rows_written: 0, database_ms: expect.any(Number), slow_statements: 0 })
  expect(rowsWritten).toBeLessThanOrEqual(1)

  const warm = await lineOf(request(token, 'POST', '/clients', { company_name: 'Box' }), meter.env)
  expect(warm).toMatchObject({ rows_read: expect.any(Number), rows_written: meter.take().rowsWritten })
  expect(warm?.rows_written).toBeGreaterThan(0)
})

it('has the region that served the database, whether it was the primary, and the colo of the request', async () => {
  const remote = wrapBindings(env, async (name, work) => {
    const results = await work()
    if (name !== 'DB.batch' || !Array.isArray(results)) return results
    const served = { duration: 1.234, served_by_region: 'WEUR', served_by_primary: false }
    return results.map((result) => ({ ...result, meta: { ...result.meta, ...served } }))
  })
  const sent = new Request(request(company.token, 'GET', '/clients?per_page=1'), { cf: { colo: 'AMS' } })
  const line = await lineOf(sent, remote)
  expect(line).toMatchObject({ served_by_region: 'WEUR', served_by_primary: false, colo: 'AMS' })
  expect(Number(line?.database_ms) % 1.23).toBeLessThan(0.1)
})

it('has zeros for a request that reaches no database', async () => {
  const none = { rows_read: 0, rows_written: 0, database_ms: 0 }
  expect(await lineOf(request(null, 'GET', '/clients'))).toMatchObject(none)
})
