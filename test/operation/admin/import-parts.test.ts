import { expect, it } from 'vitest'
import { ADMIN_TOKEN, adminCall, adminSend } from '../../support/admin.ts'
import { freshId, mintCompany } from '../../support/app.ts'
import { moveTime, stopTime } from '../../support/time.ts'

it('an import is dated when its body has arrived, behind changes made meanwhile', async () => {
  await mintCompany()
  const { id, call } = await mintCompany()
  const fast = (await call('POST', '/clients', { company_name: 'Fast' })).body.client.id
  const file = { company: { id, name: 'Slow' }, clients: [{ id: fast + 1, company_name: 'Imported' }] }
  const { readable, writable } = new IdentityTransformStream()
  stopTime()
  const startedAt = Date.now()
  const imported = adminSend(
    new Request(`https://api.test/admin/v1/companies/${id}/imports`, {
      method: 'POST',
      headers: { authorization: `Bearer ${ADMIN_TOKEN}`, 'content-type': 'application/json' },
      body: readable,
    }),
  )
  moveTime(2_000)
  await call('PATCH', `/clients/${fast}`, { phone: '1' })
  moveTime(1_000)
  const writer = writable.getWriter()
  await writer.write(new TextEncoder().encode(JSON.stringify({ hash: 'a'.repeat(64), part: 1, parts: 1, file })))
  await writer.close()
  expect((await imported).status).toBe(200)
  const { data } = (await call('GET', `/clients?updated_since=${new Date(startedAt + 2_001).toISOString()}`)).body
  expect(data).toMatchObject([{ id: fast + 1, updated_at: new Date(startedAt + 3_000).toISOString() }])
})

it('an import takes parts of up to 1,000 rows', async () => {
  const id = 1_000 + freshId()
  const send = (rows: number, orders: object[] = []) => {
    const clients = Array.from({ length: rows }, (_, at) => ({ id: at + 1, company_name: `Client ${at}` }))
    const file = { company: { id, name: 'Large' }, clients, orders }
    return adminCall('POST', `/companies/${id}/imports`, { hash: 'a'.repeat(64), part: 1, parts: 1, check: true, file })
  }
  expect((await send(1_000)).body.counts).toEqual({ clients: 1_000 })
  for (const orders of [[], [{ id: 1, client_id: 1, title: 'One' }]]) {
    const { status, body } = await send(1_001, orders)
    expect([status, body.error.details.issues]).toEqual([
      400,
      [expect.objectContaining({ path: 'file', message: 'must have at most 1000 rows, not 1001' })],
    ])
  }
})

const nested = (depth: number): unknown => (depth === 0 ? 'deep' : [nested(depth - 1)])

it.each([
  [
    'lists of an artwork',
    'artworks.0.placements',
    400,
    { artworks: { placements: ['\\'.repeat(200_000)], colors: ['x'.repeat(399_990)] } },
  ],
  ['a deep list of an artwork', 'artworks.0.placements', null, { artworks: { placements: nested(501) } }],
  ['a very deep list of an artwork', 'artworks.0.placements', null, { artworks: { placements: nested(3_000) } }],
  ['very deep JSON of a context', 'client_data', null, { contexts: { client_data: { a: nested(3_000) } } }],
  [
    'the JSON of a context',
    'thread_contexts.0',
    900,
    { contexts: { orders_data: [{ id: 1, a: '"'.repeat(200_000) }], clients_data: ['x'.repeat(499_990)] } },
  ],
])('an import refuses %s over what a row may have', async (_, path, kb, { artworks, contexts }: Lists) => {
  const id = 2_000 + freshId()
  const send = (file: object) => {
    const whole = { company: { id, name: 'Large' }, ...file }
    return adminCall('POST', `/companies/${id}/imports`, { hash: 'a'.repeat(64), part: 1, parts: 1, file: whole })
  }
  const clients = [{ id: 1, company_name: 'One' }]
  const order = { id: 1, client_id: 1, title: 'One' }
  const { status, body } = await send({
    clients,
    ...(artworks && { orders: [{ ...order, artworks: [{ id: 1, name: 'One', ...artworks }] }] }),
    ...(contexts && { thread_contexts: [{ thread_id: 'one', client_id: '1', ...contexts }] }),
  })
  const message = kb
    ? expect.stringContaining(`at most ${kb} KB`)
    : expect.stringContaining('must be nested at most 500 levels deep')
  const at = expect.stringMatching(new RegExp(`^file\\..*${path}$`))
  expect([status, body.error?.details.issues]).toEqual([400, [{ path: at, message }]])
})

interface Lists {
  artworks?: object
  contexts?: object
}
