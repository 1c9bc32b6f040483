import { describe, expect, it } from 'vitest'
import { classify, isOurInvoice } from '../../src/accounting/decisions.ts'
import {
  buildCreateCall,
  buildRemoveCall,
  buildUpdateCall,
  type InvoiceCall,
  type InvoiceSource,
} from '../../src/accounting/invoice-payload.ts'
import { AccountingError } from '../../src/accounting/transport.ts'
import { CREDENTIALS, credentialsFor, SPOILT } from '../simulators/accounting-data.ts'
import { makeLine, makeOrder, REALM, World } from './support.ts'

const INVOICE = '^POST /v3/company/\\d+/invoice'
const TOKEN = '^POST /oauth2'
const ACME = { displayName: 'Acme', email: 'ann@acme.test' }

async function fail(work: Promise<unknown>): Promise<AccountingError> {
  const error = await work.then(
    () => null,
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof AccountingError)) throw new Error(`Expected an AccountingError, got ${String(error)}`)
  return error
}

/** A company with its customer, ready to send invoices. */
async function open(order: Partial<InvoiceSource> = {}) {
  const world = new World()
  const adapter = world.connect()
  const customerId = await adapter.findOrCreateCustomer(ACME, 'customer')
  const references = { customerId, itemId: '1' }
  const create = buildCreateCall(makeOrder(order), references)
  return { world, adapter, references, create }
}

function update(order: Partial<InvoiceSource>, references: { customerId: string; itemId: string }, Id: string) {
  return (SyncToken: string): InvoiceCall => buildUpdateCall(makeOrder(order), references, { Id, SyncToken })
}

describe('an invoice', () => {
  it('is created, read and found', async () => {
    const { world, adapter, create } = await open()
    const key = await adapter.sendInvoice(create, 'r1')
    expect(key.SyncToken).toBe('0')
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

  it('is updated in our fields only', async () => {
    const { world, adapter, references, create } = await open()
    const key = await adapter.sendInvoice(create, 'r1')
    await world.steer({
      action: 'edit_invoice',
      realm_id: REALM,
      id: key.Id,
      fields: { CustomerMemo: { value: 'Thanks' } },
    })
    const lines = [makeLine({ quantity: 2, total_cents: 1_900 })]
    const totals = { subtotal: 1_900, discount_total: 0, tax_total: 157, total: 2_057 }
    const changed = update({ description: null, deadline: null, lines, totals }, references, key.Id)
    expect(await adapter.sendInvoice(changed('1'), 'r2')).toEqual({ Id: key.Id, SyncToken: '2' })
    expect(await adapter.readInvoice(key.Id)).toMatchObject({
      CustomerMemo: { value: 'Thanks' },
      DocNumber: '1001',
      TxnDate: '2026-01-31',
      PrivateNote: '',
      DueDate: null,
      TotalAmt: 20.57,
    })
  })

  it('loses the fields of others when it is not a sparse update (the simulator is no mild judge)', async () => {
    const { adapter, references, create } = await open()
    const key = await adapter.sendInvoice(create, 'r1')
    const { body } = update({}, references, key.Id)('0')
    const { sparse: _sparse, ...whole } = body as Extract<InvoiceCall, { operation: 'update' }>['body']
    await adapter.sendInvoice({ operation: 'update', body: { ...whole, sparse: false as never } }, 'r2')
    expect((await adapter.readInvoice(key.Id)).DocNumber).toBeUndefined()
  })

  it('is voided, and deleted where configured', async () => {
    const { world, adapter, create } = await open()
    const key = await adapter.sendInvoice(create, 'r1')
    const voided = await adapter.sendInvoice(buildRemoveCall(key, 'void'), 'r2')
    expect(voided).toEqual({ Id: key.Id, SyncToken: '1' })
    expect((await world.books()).voided).toEqual([key.Id])
    expect((await adapter.readInvoice(key.Id)).TotalAmt).toBe(0)

    await adapter.sendInvoice(buildRemoveCall(voided, 'delete'), 'r3')
    expect((await world.books()).deleted).toEqual([key.Id])
    expect(classify((await fail(adapter.readInvoice(key.Id))).failure)).toBe('gone')
  })

  it.each(["O'Brien & Söns", 'back\\slash', "\\' or Id = '1", '100% "cotton", ünï + 1'])(
    'has a customer found by the name %s',
    async (displayName) => {
      const world = new World()
      const adapter = world.connect()
      const first = await adapter.findOrCreateCustomer({ displayName, email: null }, 'c1')
      expect(await adapter.findOrCreateCustomer({ displayName, email: null }, 'c2')).toBe(first)
      const { customers } = await world.books()
      expect(Object.values(customers)).toEqual([{ Id: first, SyncToken: '0', DisplayName: displayName }])
    },
  )

  it('finds the customer whose name was taken meanwhile', async () => {
    const { world, adapter, references } = await open()
    const empty = { status: 200, body: '{"QueryResponse":{}}' }
    await world.spoil({ match: '^GET .*query', ...empty })
    expect(await adapter.findOrCreateCustomer(ACME, 'c2')).toBe(references.customerId)
    await world.spoil({ match: '^GET .*query', times: 2, ...empty })
    const error = await fail(adapter.findOrCreateCustomer(ACME, 'c3'))
    expect(classify(error.failure)).toBe('data')
  })

  it('tells the email of a new customer', async () => {
    const { world, references } = await open()
    expect((await world.books()).customers[references.customerId]).toMatchObject({
      PrimaryEmailAddr: { Address: 'ann@acme.test' },
    })
  })

  it('takes a request id of 1 to 50 characters', async () => {
    const { adapter, create } = await open()
    await expect(adapter.sendInvoice(create, '')).rejects.toThrow(RangeError)
    await expect(adapter.sendInvoice(create, 'x'.repeat(51))).rejects.toThrow(RangeError)
    await adapter.sendInvoice(create, 'x'.repeat(50))
  })
})

describe('what goes wrong is told by its class', () => {
  it.each([
    ['500 with a fault', { ...SPOILT.broken }, 'transient'],
    ['a page with 503', { ...SPOILT.unavailable }, 'transient'],
    ['a fault inside 200', { ...SPOILT.faultInside }, 'transient'],
    ['a connection closed', { destroy: true }, 'transient'],
    ['an answer cut short', { cutAfterBytes: 20 }, 'transient'],
    ['an answer that is no JSON', { status: 200, body: 'ok' }, 'transient'],
    ['an answer without the invoice', { status: 200, body: '{}' }, 'transient'],
    ['429', { ...SPOILT.throttled }, 'throttle'],
    ['throttling in XML', { ...SPOILT.throttledXml }, 'throttle'],
    ['a token refused for good', { ...SPOILT.tokenExpired, times: 2 }, 'token'],
    ['403', { ...SPOILT.forbidden }, 'grant_lost'],
  ])('%s', async (_name, fault, expected) => {
    const { world, adapter, create } = await open()
    await world.spoil({ match: INVOICE, ...fault })
    const error = await fail(adapter.sendInvoice(create, 'r1'))
    expect(classify(error.failure)).toBe(expected)
    await world.spoil()
    expect(await adapter.sendInvoice(create, 'r1')).toMatchObject({ SyncToken: '0' })
  })

  it('a redirect, which is not followed', async () => {
    const { world, adapter } = await open()
    await world.spoil({ match: '^GET', status: 302, headers: { location: `${world.baseUrl}/stolen` } })
    const error = await fail(adapter.readInvoice('1'))
    expect(error.failure).toMatchObject({ kind: 'answered', status: 302 })
    expect(classify(error.failure)).toBe('transient')
    expect(await world.lines()).not.toContain('GET /stolen')
  })

  it('a system that is not there', async () => {
    const world = new World()
    const adapter = world.connect({ settings: { ...world.settings(), baseUrl: 'http://127.0.0.1:1' } })
    expect((await fail(adapter.readInvoice('1'))).failure).toEqual({ kind: 'no_answer', reason: 'network' })
  })

  it('an answer that takes too long', async () => {
    const { world, create } = await open()
    const adapter = world.connect({ timeoutMs: 300, tokens: await currentTokens(world) })
    await adapter.findInvoices('1001')
    await world.spoil({ match: INVOICE, delayMs: 1_000 })
    expect((await fail(adapter.sendInvoice(create, 'r1'))).failure).toEqual({ kind: 'no_answer', reason: 'timeout' })
  })

  it('an answer larger than the cap', async () => {
    const { world, adapter } = await open()
    await world.spoil({ match: '^GET', status: 200, body: JSON.stringify({ filler: 'x'.repeat(5_000_000) }) })
    expect((await fail(adapter.readInvoice('1'))).failure).toEqual({ kind: 'no_answer', reason: 'too_large' })
  })

  it.each<[string, Partial<InvoiceSource>, (call: InvoiceCall) => InvoiceCall, string]>([
    ['no customer', {}, (call) => edit(call, { CustomerRef: {} }), '2020'],
    ['a number too long', {}, (call) => edit(call, { DocNumber: 'x'.repeat(22) }), '2050'],
    ['a note too long', {}, (call) => edit(call, { PrivateNote: 'x'.repeat(4_001) }), '2050'],
    ['an unknown customer', {}, (call) => edit(call, { CustomerRef: { value: '999' } }), '2500'],
    ['no lines', {}, (call) => edit(call, { Line: [] }), '2020'],
    ['a wrong date', {}, (call) => edit(call, { DueDate: '2026-02-30' }), '6000'],
    ['a total below nothing', { lines: [makeLine({ quantity: -12, total_cents: -11_400 })] }, (call) => call, '6000'],
    ['a wrong product', {}, (call) => edit(call, { Line: [wrongLine(call)] }), '6070'],
  ])('refused data: %s', async (_name, order, change, code) => {
    const { world, adapter, references } = await open()
    const error = await fail(adapter.sendInvoice(change(buildCreateCall(makeOrder(order), references)), 'r1'))
    expect(error.failure).toMatchObject({ kind: 'answered', status: 400, codes: [code] })
    expect(classify(error.failure)).toBe('data')
    expect(error.message).toContain(code)
    expect((await world.books()).invoices).toEqual({})
  })

  it('stale: the update is merged on the new token, under a new request id', async () => {
    const { world, adapter, references, create } = await open()
    const key = await adapter.sendInvoice(create, 'r1')
    await world.steer({ action: 'edit_invoice', realm_id: REALM, id: key.Id, fields: { Memo: 'by hand' } })
    const changed = update({ description: 'New' }, references, key.Id)
    expect(classify((await fail(adapter.sendInvoice(changed(key.SyncToken), 'r2'))).failure)).toBe('stale')
    const fresh = await adapter.readInvoice(key.Id)
    expect(classify((await fail(adapter.sendInvoice(changed(fresh.SyncToken), 'r2'))).failure)).toBe('stale')
    await adapter.sendInvoice(changed(fresh.SyncToken), 'r3')
    expect(await adapter.readInvoice(key.Id)).toMatchObject({ Memo: 'by hand', PrivateNote: 'New', SyncToken: '2' })
    expect((await world.books()).misused).toEqual(['r2'])
  })

  it('gone', async () => {
    const { world, adapter, references, create } = await open()
    const key = await adapter.sendInvoice(create, 'r1')
    await world.steer({ action: 'remove_invoice', realm_id: REALM, id: key.Id })
    for (const call of [update({}, references, key.Id)('0'), buildRemoveCall(key, 'void')]) {
      expect(classify((await fail(adapter.sendInvoice(call, `gone-${call.operation}`))).failure)).toBe('gone')
    }
  })

  it('duplicate: found by its number, ours or not', async () => {
    const { adapter, create } = await open()
    const key = await adapter.sendInvoice(create, 'r1')
    expect(classify((await fail(adapter.sendInvoice(create, 'r2'))).failure)).toBe('duplicate')
    const [found] = await adapter.findInvoices('1001')
    expect(found?.Id).toBe(key.Id)
    expect(isOurInvoice(found ?? {}, create.operation === 'create' ? create.body : {})).toBe(true)
    const other = await adapter.findOrCreateCustomer({ displayName: 'Other', email: null }, 'c9')
    const theirs = buildCreateCall(makeOrder(), { customerId: other, itemId: '1' })
    expect(isOurInvoice(found ?? {}, theirs.operation === 'create' ? theirs.body : {})).toBe(false)
  })

  it('a closed period', async () => {
    const { world, adapter, create } = await open()
    await world.steer({ action: 'close_books', realm_id: REALM, until: '2026-01-31' })
    expect(classify((await fail(adapter.sendInvoice(create, 'r1'))).failure)).toBe('closed_period')
  })
})

describe('a request id', () => {
  it.each([
    ['a lost answer', { apply: true, destroy: true }],
    ['an answer cut short', { cutAfterBytes: 10 }],
    ['a 500 after the work', { apply: true, ...SPOILT.broken }],
  ])('makes a change happen once in spite of %s', async (_name, fault) => {
    const { world, adapter, create } = await open()
    await world.spoil({ match: INVOICE, ...fault })
    await fail(adapter.sendInvoice(create, 'r1'))
    const first = await adapter.sendInvoice(create, 'r1')
    expect(await adapter.sendInvoice(create, 'r1')).toEqual(first)
    const { invoices, changes, misused } = await world.books()
    expect(Object.keys(invoices)).toEqual([first.Id])
    expect(changes.filter((change) => change.operation === 'create')).toHaveLength(1)
    expect(misused).toEqual([])

    await world.spoil({ match: INVOICE, ...fault })
    const remove = buildRemoveCall(first, 'void')
    await fail(adapter.sendInvoice(remove, 'r2'))
    expect(await adapter.sendInvoice(remove, 'r2')).toEqual({ Id: first.Id, SyncToken: '1' })
  })

  it('is remembered apart for every company', async () => {
    const { world, adapter, create } = await open()
    await adapter.sendInvoice(create, 'r1')
    const { realm_id: realmId, refresh_token: refreshToken } = credentialsFor('2002')
    const second = world.connect({
      settings: { ...world.settings(), realmId },
      tokens: { refreshToken, accessToken: null, accessGoodUntilMs: 0 },
    })
    await second.findOrCreateCustomer(ACME, 'customer')
    await second.sendInvoice(create, 'r1')
    const { realms } = (await world.look()).state
    expect(Object.keys(realms[realmId]?.invoices ?? {})).toHaveLength(1)
    expect(Object.keys(realms[REALM]?.invoices ?? {})).toHaveLength(1)
  })
})

async function currentTokens(world: World) {
  const { state } = await world.look()
  const [accessToken = ''] = Object.keys(state.accessTokens)
  return { refreshToken: 'unused', accessToken, accessGoodUntilMs: Date.now() + 3_600_000 }
}

function edit(call: InvoiceCall, fields: Record<string, unknown>): InvoiceCall {
  return { ...call, body: { ...call.body, ...fields } } as InvoiceCall
}

function wrongLine(call: InvoiceCall): unknown {
  const [line] = call.operation === 'create' ? call.body.Line : []
  return { ...line, Amount: 113.99 }
}

describe('secrets', () => {
  it('are in no error, even when the other side echoes them', async () => {
    const { world, adapter, create } = await open()
    const { accessToken } = world.saved.at(-1) ?? { accessToken: '' }
    const echo = `${accessToken} ${CREDENTIALS.client_secret} ${world.saved.at(-1)?.refreshToken}`
    const body = JSON.stringify({ Fault: { Error: [{ code: '6000', Message: echo }] } })
    await world.spoil({ match: INVOICE, status: 400, body })
    const error = await fail(adapter.sendInvoice(create, 'r1'))
    expect(error.message).toContain('[secret] [secret] [secret]')

    await world.steer({ action: 'expire_access' })
    const basic = btoa(`${CREDENTIALS.client_id}:${CREDENTIALS.client_secret}`)
    const spoken = { error: 'invalid_grant', error_description: `${echo} ${basic}` }
    await world.spoil({ match: TOKEN, status: 400, body: JSON.stringify(spoken) })
    const refused = await fail(adapter.sendInvoice(create, 'r1'))
    const everything = `${refused.message} ${refused.stack} ${JSON.stringify(refused)} ${JSON.stringify(error)}`
    for (const secret of [
      accessToken ?? '',
      CREDENTIALS.client_secret,
      world.saved.at(-1)?.refreshToken ?? '',
      basic,
    ]) {
      expect(secret).not.toBe('')
      expect(everything).not.toContain(secret)
    }
  })
})
