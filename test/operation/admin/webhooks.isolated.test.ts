import { env } from 'cloudflare:workers'
import { beforeEach, describe, expect, it } from 'vitest'
import { EVENT_TYPES } from '../../../src/delivery/webhooks/event-types.ts'
import { openSecrets } from '../../../src/delivery/webhooks/message.ts'
import { expectedSignature, openResolver, Receiver, Subscriber } from '../../delivery/webhooks/support.ts'
import { addMember, adminCall, adminCallWith, startAccess } from '../../support/admin.ts'
import { mintCompany, request, send, sql, type TestCompany } from '../../support/app.ts'
import { insert, insertEndpoint } from '../../support/rows.ts'
import { breakCalls } from '../../support/wrap-bindings.ts'

let subscriber: Subscriber
let company: TestCompany
/** The companies whose delivery was started. */
let started: number[]

const access = await startAccess()
const WEBHOOK_RESOLVER = await openResolver({ 'hooks.example': '1.1.1.1' })
const start = async (id: number) => void started.push(id)
const WEBHOOK_DELIVERY = { idFromName: String, get: () => ({ start }) }
Object.assign(access.bindings, { WEBHOOK_RESOLVER, WEBHOOK_DELIVERY })

beforeEach(async () => {
  started = []
  subscriber = await Subscriber.open()
  company = subscriber.company
  await addMember(company.id, 'dev@example.com', 'developer')
})

const OF_CLIENT = { type: 'clients', entity_id: '1' }
/** Adds a row of an endpoint's deliveries; by default it waits behind another one. */
const addDelivery = (endpoint_id: string, sequence: number, fields: object = {}) =>
  insert('webhook_deliveries', { company_id: company.id, endpoint_id, sequence, ...OF_CLIENT, ...fields })
/** A delivery that has failed. */
const FAILED = { attempts: 9, first_attempt_at: 5, next_attempt_at: 4_000_000_000_000, last_error: 'HTTP 500' }

const path = (id = '') => `/companies/${company.id}/webhooks${id && `/${id}`}`
const as = (method: string, at: string, body?: unknown) => access.callAs('dev@example.com', method, at, body)
const URL_PUBLIC = 'https://hooks.example/crm?key=1'

async function create(fields: object = {}) {
  const { status, body } = await as('POST', path(), { url: URL_PUBLIC, ...fields })
  expect(status).toBe(200)
  return body
}

async function secretsOf(id: string) {
  const [row] = await sql<{ secret: string }>('SELECT secret FROM webhook_endpoints WHERE id = ?', id)
  return openSecrets(env.CREDENTIALS_KEY, company.id, id, row?.secret ?? '')
}

async function actionsOf(id: string) {
  const text = 'SELECT action FROM admin_log WHERE company_id = ? AND entity_id = ? ORDER BY id'
  return (await sql(text, company.id, id)).map(({ action }) => action)
}

describe('a webhook endpoint', () => {
  it('is created for what changes from then on, and recorded', async () => {
    await subscriber.createClient('Before')
    const body = await create()
    expect(body).toEqual({
      id: expect.stringMatching(/^we_[0-9a-f]{18}$/),
      company_id: company.id,
      url: URL_PUBLIC,
      event_types: EVENT_TYPES,
      enabled: true,
      disabled_reason: null,
      replaying: false,
      behind: 0,
      waiting: 0,
      removed_changes: 0,
      created_at: expect.any(String),
      updated_at: body.created_at,
      secret: expect.stringMatching(/^whsec_[A-Za-z0-9+/]{43}=$/),
    })
    const entries = await sql('SELECT actor, action, address FROM admin_log WHERE entity_id = ?', body.id)
    expect(entries).toEqual([{ actor: 'dev@example.com', action: 'webhooks.create', address: expect.any(String) }])
    await subscriber.createClient('After')
    const { secret: _, ...endpoint } = body
    expect((await as('GET', path(body.id))).body).toEqual({ ...endpoint, behind: 1 })
  })

  it('is told of the next change by a token that was in use before it was created, or enabled', async () => {
    const sendBy = async (token: string, ...sent: [method: string, path: string, body?: object]) =>
      (await send(request(token, ...sent), { env: access.bindings })).status
    /** Changes something by a token, and returns the companies whose delivery that starts. */
    const change = async (token: string) => {
      started = []
      expect(await sendBy(token, 'GET', '/clients')).toBe(200)
      expect(await sendBy(token, 'PATCH', '/clients/999999', { company_name: 'x' })).toBe(404)
      expect(await sendBy(token, 'POST', '/clients', { company_name: 'A' })).toBe(200)
      return started
    }
    expect(await change(company.token)).toEqual([])
    const { id } = await create()
    expect(await change(company.token)).toEqual([company.id])
    await as('PATCH', path(id), { enabled: false })
    const other = await subscriber.freshToken()
    expect(await change(other)).toEqual([])
    await as('PATCH', path(id), { enabled: true })
    expect(await change(other)).toEqual([company.id])
  })

  it('shows its secret once', async () => {
    const { id, secret } = await create()
    await subscriber.createClient()
    await sql('UPDATE webhook_endpoints SET position = 1 WHERE id = ?', id)
    const span = { from: '2000-01-01T00:00:00Z', to: '2100-01-01T00:00:00Z' }
    const responses = [
      ...[await as('GET', path(id)), await as('GET', path())],
      await adminCall('GET', `/webhooks?id=${id}`),
      await as('PATCH', path(id), { enabled: true }),
      await as('POST', path(`${id}/replay`), span),
      await as('GET', path(`${id}/deliveries`)),
    ]
    expect(responses.map(({ status }) => status)).toEqual(Array(6).fill(200))
    const { body: rotated } = await as('POST', path(`${id}/rotate-secret`))
    const stored = JSON.stringify(await sql('SELECT * FROM webhook_endpoints WHERE id = ?', id))
    const after = [await as('GET', path(id)), await as('GET', `/companies/${company.id}/audit`)]
    responses.push(...after, await as('DELETE', path(id)))
    expect(JSON.stringify(responses.map(({ body }) => body))).not.toMatch(/whsec_|"secret"/)
    for (const each of [secret, rotated.secret]) expect(stored).not.toContain(each.slice('whsec_'.length))
  })

  it('has the events that were asked for, each once', async () => {
    const { id } = await create({ event_types: ['order.created', 'client.created', 'order.created'] })
    const stored = await sql('SELECT event_types FROM webhook_endpoints WHERE id = ?', id)
    expect(stored).toEqual([{ event_types: '["client.created","order.created"]' }])
  })

  it('is one of at most ten', async () => {
    for (let count = 0; count < 10; count++) await create()
    const { status, body } = await as('POST', path(), { url: URL_PUBLIC })
    expect([status, body.error.message]).toEqual([409, 'The company has 10 endpoints: delete one first'])
    const first = await as('GET', `${path()}?per_page=6`)
    const { next_cursor } = first.body.pagination
    const second = await as('GET', `${path()}?per_page=6&cursor=${next_cursor}`)
    const ids = [...first.body.data, ...second.body.data].map(({ id }) => id)
    expect([ids.length, new Set(ids).size]).toEqual([10, 10])
    expect((await as('DELETE', path(ids[0]))).body).toEqual({ id: ids[0], url: URL_PUBLIC, deleted: true })
    await create()
  })

  it('is disabled, and goes on where it stopped when it is enabled again, with the secret that it showed', async () => {
    const receiver = new Receiver('')
    const { id, secret } = await create({ url: `${receiver.url}/hook` })
    expect((await as('PATCH', path(id), { enabled: false })).body).toMatchObject({ enabled: false })
    expect(started).toEqual([])
    for (const name of ['One', 'Two', 'Three']) await subscriber.createClient(name)
    await subscriber.deliver()
    expect(await receiver.lines()).toEqual([])
    await sql('DELETE FROM changes WHERE company_id = ? AND sequence < 3', company.id)
    await sql("UPDATE webhook_endpoints SET disabled_reason = 'It failed.' WHERE id = ?", id)
    expect((await as('GET', path(id))).body).toMatchObject({ disabled_reason: 'It failed.', behind: 3 })
    const { body } = await as('PATCH', path(id), { enabled: true })
    expect(body).toMatchObject({ enabled: true, disabled_reason: null, behind: 3, removed_changes: 2 })
    expect(started).toEqual([company.id])
    expect(await actionsOf(id)).toEqual(['webhooks.create', 'webhooks.update:enabled', 'webhooks.update:enabled'])
    await subscriber.deliver()
    const [message = expect.fail('There is no message.'), ...others] = await receiver.messages()
    expect([message.signature, others]).toEqual([await expectedSignature(secret, message), []])
    expect((await as('GET', path(id))).body).toMatchObject({ behind: 0, removed_changes: 0 })
  })

  it('says that changes were removed also where none is left', async () => {
    const { id } = await create()
    await subscriber.createClient()
    await sql('DELETE FROM changes WHERE company_id = ?', company.id)
    expect((await as('GET', path(id))).body).toMatchObject({ behind: 1, removed_changes: 1 })
  })

  it('says how many changes wait for a retry, though it is behind none', async () => {
    const [{ id }, other] = [await create(), await create()]
    await addDelivery(id, 1, FAILED)
    await addDelivery(id, 2)
    expect((await as('GET', path(id))).body).toMatchObject({ behind: 0, waiting: 2 })
    expect((await as('GET', path(other.id))).body).toMatchObject({ behind: 0, waiting: 0 })
  })

  it('is tried again at once at a new address', async () => {
    const { id } = await create()
    await addDelivery(id, 1, FAILED)
    await addDelivery(id, 2)
    await as('PATCH', path(id), { event_types: ['client.created'] })
    expect((await as('GET', path(`${id}/deliveries`))).body.data[0]).toMatchObject({ attempts: 9 })
    const { body } = await as('PATCH', path(id), { url: 'https://hooks.example/new' })
    expect(body).toMatchObject({ url: 'https://hooks.example/new', event_types: ['client.created'] })
    const stored = 'SELECT attempts, next_attempt_at FROM webhook_deliveries WHERE endpoint_id = ? ORDER BY sequence'
    const [first, second] = await sql(stored, id)
    expect([first?.attempts, second]).toEqual([0, { attempts: 0, next_attempt_at: null }])
    expect(first?.next_attempt_at).toBeLessThanOrEqual(Date.now())
  })

  it('stays proven, with the attempts of its retries, when it is saved with the address that it has', async () => {
    const { id } = await create()
    const change = { url: URL_PUBLIC, event_types: ['client.created'] }
    await sql('UPDATE webhook_endpoints SET initial_failures = NULL WHERE id = ?', id)
    await addDelivery(id, 1, FAILED)
    expect((await as('PATCH', path(id), change)).body).toMatchObject(change)
    expect((await as('GET', path(`${id}/deliveries`))).body.data[0]).toMatchObject({ attempts: 9 })
    await as('PATCH', path(id), { ...change, enabled: true })
    const failures = () => sql('SELECT initial_failures FROM webhook_endpoints WHERE id = ?', id)
    expect(await failures()).toEqual([{ initial_failures: null }])
    await as('PATCH', path(id), { url: 'https://hooks.example/new', enabled: true })
    expect(await failures()).toEqual([{ initial_failures: 0 }])
  })

  it('gets a new secret, beside which the old one signs for a day', async () => {
    const { id, secret } = await create()
    const { body } = await as('POST', path(`${id}/rotate-secret`))
    expect(body.secret).not.toBe(secret)
    const stored = await secretsOf(id)
    expect(stored).toEqual({ secret: body.secret, previous: { secret, until: expect.any(Number) }, earlier: [] })
    expect(Math.abs((stored.previous?.until ?? 0) - Date.now() - 86_400_000)).toBeLessThan(60_000)
    expect(await actionsOf(id)).toEqual(['webhooks.create', 'webhooks.rotate_secret'])
    await sql("UPDATE webhook_endpoints SET secret = 'v1.broken.x' WHERE id = ?", id)
    const { body: replaced } = await as('POST', path(`${id}/rotate-secret`))
    expect(await secretsOf(id)).toEqual({ secret: replaced.secret })
  })

  it('is deleted with what waits for it', async () => {
    const { id } = await create()
    const kept = await create()
    await addDelivery(id, 1, { next_attempt_at: 0 })
    for (const status of [200, 404]) expect((await as('DELETE', path(id))).status).toBe(status)
    expect(await sql('SELECT id FROM webhook_endpoints WHERE company_id = ?', company.id)).toEqual([{ id: kept.id }])
    expect(await sql('SELECT * FROM webhook_deliveries WHERE company_id = ?', company.id)).toEqual([])
    expect(await actionsOf(id)).toEqual(['webhooks.create', 'webhooks.delete'])
  })

  it('lists the deliveries that failed and those that wait behind them, page by page', async () => {
    const { id } = await create()
    const clientId = String(await subscriber.createClient())
    await addDelivery(id, 1, { ...FAILED, entity_id: clientId })
    await addDelivery(id, 2, { entity_id: clientId })
    const first = await as('GET', path(`${id}/deliveries?per_page=1`))
    const times = { first_attempt_at: '1970-01-01T00:00:00.005Z', next_attempt_at: '2096-10-02T07:06:40.000Z' }
    const event = { sequence: 1, event_type: 'client.created', entity_id: clientId }
    expect(first.body.data).toEqual([{ ...FAILED, ...times, ...event }])
    const { next_cursor } = first.body.pagination
    const second = await as('GET', path(`${id}/deliveries?per_page=1&cursor=${next_cursor}`))
    expect(second.body).toMatchObject({
      data: [{ sequence: 2, event_type: null, next_attempt_at: null }],
      pagination: { has_more: false },
    })
    const { id: otherId } = await create()
    expect((await as('GET', path(`${otherId}/deliveries?per_page=1&cursor=${next_cursor}`))).status).toBe(400)
  })

  it.each([
    ['POST', {}],
    ['POST', { url: 1 }],
    ['POST', { url: URL_PUBLIC, event_types: [] }],
    ['POST', { url: URL_PUBLIC, event_types: ['client.burnt'] }],
    ['POST', { url: URL_PUBLIC, event_types: Array(11).fill('client.created') }],
    ['POST', { url: URL_PUBLIC, secret: 'whsec_mine' }],
    ['PATCH', {}],
    ['PATCH', { enabled: 'yes' }],
    ['PATCH', { disabled_reason: 'x' }],
  ])('is refused with wrong input: %s %j', async (method, body) => {
    const { id } = await create()
    expect((await as(method, path(method === 'PATCH' ? id : ''), body)).status).toBe(400)
    expect(await actionsOf(id)).toEqual(['webhooks.create'])
  })
})

it.each<[string, string, object?]>([
  ['GET', ''],
  ['PATCH', '', { enabled: false }],
  ['DELETE', ''],
  ['POST', '/rotate-secret'],
  ['POST', '/replay', { from: '2000-01-01T00:00:00Z', to: '2100-01-01T00:00:00Z' }],
  ['GET', '/deliveries'],
])('an id that no endpoint can have is not found: %s %s', async (method, suffix, body) => {
  expect((await as(method, path(`we_1${suffix}`), body)).status).toBe(404)
})

describe('the list of all endpoints', () => {
  it('is one of operators, of one company or one endpoint where that is asked for', async () => {
    const mine = await create()
    await (await Subscriber.open()).subscribe()
    const all = (await adminCall('GET', '/webhooks?per_page=100')).body.data
    expect(new Set(all.map(({ company_id }: { company_id: number }) => company_id)).size).toBeGreaterThan(1)
    const { secret: _, ...endpoint } = mine
    expect((await adminCall('GET', `/webhooks?company_id=${company.id}`)).body.data).toEqual([endpoint])
    expect((await adminCall('GET', `/webhooks?id=${mine.id}`)).body.data).toEqual([endpoint])
    expect((await adminCall('GET', '/webhooks?id=we_1')).status).toBe(400)
  })

  it('has the endpoints of one company, or one by its id, while the database of others fails', async () => {
    const mine = await create()
    const far = await mintCompany({ home: 'DB_TWO' })
    const id = `we_${'c'.repeat(18)}`
    await insertEndpoint(far.id, id)
    const overloaded = new Error('D1_ERROR: D1 DB is overloaded.')
    const broken = breakCalls(Object.assign({}, env, { DB_BROKEN: env.DB_TWO }), /^DB_BROKEN\./, overloaded)
    const list = async (query: string) => {
      const { status, body } = await adminCallWith(broken, 'GET', `/webhooks${query}`)
      return [status, body.data?.map((each: { id: string }) => each.id)]
    }
    expect(await list(`?company_id=${company.id}`)).toEqual([200, [mine.id]])
    expect(await list(`?company_id=${far.id}`)).toEqual([200, [id]])
    expect(await list(`?id=${mine.id}`)).toEqual([200, [mine.id]])
    expect(await list(`?id=${id}`)).toEqual([200, [id]])
    expect(await list(`?id=${id}&company_id=${company.id}`)).toEqual([200, []])
    expect(await list(`?id=we_${'d'.repeat(18)}`)).toEqual([503, undefined])
    expect(await list('?per_page=100')).toEqual([503, undefined])
  })
})
