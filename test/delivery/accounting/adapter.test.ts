import { describe, expect, it, vi } from 'vitest'
import { buildCreateCall, type InvoiceCall } from '../../../src/delivery/accounting/invoice-payload.ts'
import { CREDENTIALS, SPOILT } from '../../../src/simulators/accounting-data.ts'
import { ACME, fail, INVOICE_POST, makeLine, makeOrder, openAccount, REALM, World } from './support.ts'

describe('an invoice', () => {
  it('is created, read and found', async () => {
    const { world, adapter, create } = await openAccount()
    const key = await adapter.sendInvoice(create, 'r1')
    expect(key).toEqual({ Id: key.Id, SyncToken: '0', total: 123.41, tax: 9.41 })
    const invoice = await adapter.readInvoice(key.Id)
    expect(invoice).toMatchObject({ ...create.body, TotalAmt: 123.41 })
    expect(await adapter.findInvoices('1001')).toEqual([invoice])
    expect(await adapter.findInvoices('1002')).toEqual([])
    const { calls } = await world.look()
    const { path, headers } = calls.find((call) => /^\/v3.*\/invoice\?/.test(call.path)) ?? { path: '', headers: {} }
    expect(new URL(path, 'http://x').searchParams.get('requestid')).toBe('r1')
    expect(new URL(path, 'http://x').searchParams.get('minorversion')).toBe('75')
    expect(headers).toMatchObject({ 'content-type': 'application/json', accept: 'application/json' })
  })

  it.each(["O'Brien & Söns", 'back\\slash', "\\' or Id = '1", '100% "cotton", ünï + 1'])(
    'has a customer found by the name %s',
    async (displayName) => {
      const world = new World()
      const adapter = world.connect()
      const first = await adapter.findOrCreateCustomer(displayName, null, 'c1')
      expect(await adapter.findOrCreateCustomer(displayName, null, 'c2')).toBe(first)
      const { customers } = await world.account()
      expect(Object.values(customers)).toEqual([{ Id: first, SyncToken: '0', DisplayName: displayName, Active: true }])
    },
  )

  it('finds the customer whose name was taken meanwhile, or creates another one with the email', async () => {
    const { world, adapter, references } = await openAccount()
    const empty = { status: 200, body: '{"QueryResponse":{}}' }
    await world.spoil({ match: '^GET .*query', ...empty })
    expect(await adapter.findOrCreateCustomer(...ACME, 'c2')).toBe(references.customerId)
    await world.spoil({ match: '^GET .*query', times: 2, ...empty })
    const other = await adapter.findOrCreateCustomer(...ACME, 'c3')
    expect((await world.account()).customers[other]).toMatchObject({
      DisplayName: 'Acme (customer)',
      PrimaryEmailAddr: { Address: 'ann@acme.test' },
    })
  })

  it('has the highest number up to a ceiling found, the ceiling itself too', async () => {
    const { adapter, references } = await openAccount()
    expect(await adapter.findLastNumber(5_000)).toBe(0)
    for (const number of ['1500', '2000', '2001', 'A-1900']) {
      await adapter.sendInvoice(buildCreateCall(makeOrder({ number }), references), number)
    }
    expect(await adapter.findLastNumber(1_999)).toBe(1_500)
    expect(await adapter.findLastNumber(2_000)).toBe(2_000)
    expect(await adapter.findLastNumber(5_000)).toBe(2_001)
  })
})

const TOKEN = '^POST /oauth2'
/** What the system sends with 200. */
const INVOICE = JSON.stringify({ Invoice: { Id: '1', SyncToken: '0', TotalAmt: 123.41 } })
const MANY_VALUES = JSON.stringify({ Invoice: { ...JSON.parse(INVOICE).Invoice, Line: Array(400_000).fill(0) } })

const transient = (text: string) => ({ failure: 'transient', message: expect.stringContaining(text) })

describe('a failed call', () => {
  it.each([
    ['500 with a fault', { ...SPOILT.broken }, 'transient'],
    ['a page with 503', { ...SPOILT.unavailable }, 'transient'],
    ['a fault inside 200', { ...SPOILT.faultInside }, 'transient'],
    ['a connection closed', { destroy: true }, 'transient'],
    ['a response cut short', { cutAfterBytes: 20 }, 'transient'],
    ['a response that is not JSON', { status: 200, body: 'ok' }, 'transient'],
    ['a response without the invoice', { status: 200, body: '{}' }, 'transient'],
    [
      'an id that a number cannot hold',
      { status: 200, body: INVOICE.replace('"1"', '12345678901234567890') },
      'transient',
    ],
    ['more values than any list has', { status: 200, body: MANY_VALUES }, 'transient', 'another form'],
    ['300 with an invoice', { status: 300, body: INVOICE }, 'transient'],
    ['429', { ...SPOILT.throttled }, 'throttle'],
    ['throttling in XML', { ...SPOILT.throttledXml }, 'throttle'],
    ['a token that is refused twice', { ...SPOILT.tokenExpired, times: 2 }, 'token'],
    ['403', { ...SPOILT.forbidden }, 'grant_lost'],
    ['a page with 403', { ...SPOILT.unavailable, status: 403 }, 'transient'],
    ['a redirect', { status: 302, headers: { location: '/stolen' } }, 'transient', 'responded with 302'],
    ['more than the cap', { status: 200, body: 'x'.repeat(5_000_000) }, 'transient', 'the response is too large'],
  ])('after %s is classified, and the call can be repeated', async (_name, fault, expected, text = '') => {
    const { world, adapter, create } = await openAccount()
    await world.spoil({ match: INVOICE_POST, ...fault })
    const error = await fail(adapter.sendInvoice(create, 'r1'))
    expect(error).toMatchObject({ failure: expected, message: expect.stringContaining(text) })
    await world.spoil()
    expect(await adapter.sendInvoice(create, 'r1')).toMatchObject({ SyncToken: '0' })
  })

  it('reports a host that cannot be reached', async () => {
    const world = new World()
    const adapter = world.connect({ settings: { ...world.settings(), base_url: 'http://127.0.0.1:1' } })
    expect(await fail(adapter.readInvoice('1'))).toMatchObject(transient('no connection'))
  })

  it('reports a response that takes too long', async () => {
    const { world, create } = await openAccount()
    const adapter = world.connect({ tokens: await currentTokens(world) })
    await adapter.findInvoices('1001')
    await world.spoil({ match: INVOICE_POST, hold: true })
    const { setTimeout } = globalThis
    const shortened = vi
      .spyOn(globalThis, 'setTimeout')
      .mockImplementation(((work: () => void, ms: number) =>
        setTimeout(work, ms > 10_000 ? 300 : ms)) as typeof setTimeout)
    const error = await fail(adapter.sendInvoice(create, 'r1')).finally(() => shortened.mockRestore())
    expect(error).toMatchObject(transient('no response in time'))
  })

  it.each<[string, Parameters<typeof makeOrder>[0], (call: InvoiceCall) => InvoiceCall, string]>([
    ['no customer', {}, (call) => edit(call, { CustomerRef: {} }), '2020'],
    ['a number too long', {}, (call) => edit(call, { DocNumber: 'x'.repeat(22) }), '2050'],
    ['a note too long', {}, (call) => edit(call, { PrivateNote: 'x'.repeat(4_001) }), '2050'],
    ['an unknown customer', {}, (call) => edit(call, { CustomerRef: { value: '999' } }), '2500'],
    ['no lines', {}, (call) => edit(call, { Line: [] }), '2020'],
    ['a wrong date', {}, (call) => edit(call, { DueDate: '2026-02-30' }), '6000'],
    ['a total below nothing', { items: [makeLine({ quantity: -12 })] }, (call) => call, '6000'],
    ['a wrong product', {}, (call) => edit(call, { Line: [wrongLine(call)] }), '6070'],
  ])('is classified as data for %s', async (_name, order, change, code) => {
    const { world, adapter, references } = await openAccount()
    const error = await fail(adapter.sendInvoice(change(buildCreateCall(makeOrder(order), references)), 'r1'))
    expect(error).toMatchObject({ failure: 'data', codes: [code], message: expect.stringContaining(`400 (${code})`) })
    expect((await world.account()).invoices).toEqual({})
  })

  it('is classified as closed_period before the closing date', async () => {
    const { world, adapter, create } = await openAccount()
    await world.steer({ action: 'close_books', realm_id: REALM, until: '2026-01-31' })
    expect((await fail(adapter.sendInvoice(create, 'r1'))).failure).toBe('closed_period')
  })
})

describe('a long fault', () => {
  // A pattern that looks ahead from every character takes a minute and more.
  it.each(['%', '%1 ', '<Fault ><Error code="1'])('of 500 kB of %j becomes a short message', async (unit) => {
    const { world, adapter, create } = await openAccount()
    const long = unit.repeat(500_000 / unit.length)
    const body = unit.startsWith('<') ? long : JSON.stringify({ Fault: { Error: [{ code: long, Message: long }] } })
    await world.spoil({ match: INVOICE_POST, status: 400, body })
    expect((await fail(adapter.sendInvoice(create, 'r1'))).message.length).toBeLessThanOrEqual(300)
  })
})

describe('an error', () => {
  it('contains no secret, even when the accounting system echoes them', async () => {
    const { world, adapter, create } = await openAccount()
    const { access_token = '', refresh_token = '' } = { ...world.saved.at(-1) }
    const echo = `${access_token} ${CREDENTIALS.client_secret} ${refresh_token}`
    const body = JSON.stringify({ Fault: { Error: [{ code: '6000', Message: echo }] } })
    await world.spoil({ match: INVOICE_POST, status: 400, body })
    const error = await fail(adapter.sendInvoice(create, 'r1'))
    expect(error.message).toContain('[secret] [secret] [secret]')

    await world.steer({ action: 'expire_access' })
    const basic = btoa(`${CREDENTIALS.client_id}:${CREDENTIALS.client_secret}`)
    const spoken = { error: 'invalid_grant', error_description: `${echo} ${basic}` }
    await world.spoil({ match: TOKEN, status: 400, body: JSON.stringify(spoken) })
    const refused = await fail(adapter.sendInvoice(create, 'r1'))
    const everything = `${refused.message} ${refused.stack} ${JSON.stringify(refused)} ${JSON.stringify(error)}`
    for (const secret of [access_token, CREDENTIALS.client_secret, refresh_token, basic]) {
      expect(secret).not.toBe('')
      expect(everything).not.toContain(secret)
    }
  })
})

async function currentTokens(world: World) {
  const { state } = await world.look()
  const [access_token = ''] = Object.keys(state.accessTokens)
  return { refresh_token: 'unused', access_token, access_good_until: Date.now() + 3_600_000 }
}

function edit(call: InvoiceCall, fields: Record<string, unknown>): InvoiceCall {
  return { ...call, body: { ...call.body, ...fields } } as InvoiceCall
}

function wrongLine(call: InvoiceCall): unknown {
  const [line] = call.operation === 'create' ? call.body.Line : []
  return { ...line, Amount: 113.99 }
}
