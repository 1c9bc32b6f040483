import { describe, expect, it } from 'vitest'
import { buildCreateCall, buildRemoveCall } from '../../../src/delivery/accounting/invoice-payload.ts'
import { credentialsFor, SPOILT } from '../../../src/simulators/accounting-data.ts'
import { ACME, fail, makeUpdate, openAccount } from './adapter-support.ts'
import { INVOICE_POST, makeLine, makeOrder, REALM, World } from './support.ts'

describe('an invoice', () => {
  it('is created, read and found', async () => {
    const { world, adapter, create } = await openAccount()
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
    const { world, adapter, references, create } = await openAccount()
    const key = await adapter.sendInvoice(create, 'r1')
    await world.steer({
      action: 'edit_invoice',
      realm_id: REALM,
      id: key.Id,
      fields: { CustomerMemo: { value: 'Thanks' } },
    })
    const items = [makeLine({ quantity: 2 })]
    const changed = makeUpdate({ description: null, deadline: null, items }, references, key.Id)
    expect(await adapter.sendInvoice(changed('1'), 'r2')).toEqual({
      Id: key.Id,
      SyncToken: '2',
      total: 20.57,
      tax: 1.57,
    })
    expect(await adapter.readInvoice(key.Id)).toMatchObject({
      CustomerMemo: { value: 'Thanks' },
      DocNumber: '1001',
      TxnDate: '2026-01-31',
      PrivateNote: '',
      DueDate: null,
      TotalAmt: 20.57,
    })
  })

  it('is voided, and deleted where configured', async () => {
    const { world, adapter, create } = await openAccount()
    const key = await adapter.sendInvoice(create, 'r1')
    const voided = await adapter.sendInvoice(buildRemoveCall(key, 'void'), 'r2')
    expect(voided).toMatchObject({ Id: key.Id, SyncToken: '1' })
    expect((await world.account()).voided).toEqual([key.Id])
    expect((await adapter.readInvoice(key.Id)).TotalAmt).toBe(0)

    await adapter.sendInvoice(buildRemoveCall(voided, 'delete'), 'r3')
    expect((await world.account()).deleted).toEqual([key.Id])
    expect((await fail(adapter.readInvoice(key.Id))).failure).toBe('gone')
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

  it('finds the customer whose name was taken meanwhile', async () => {
    const { world, adapter, references } = await openAccount()
    const empty = { status: 200, body: '{"QueryResponse":{}}' }
    await world.spoil({ match: '^GET .*query', ...empty })
    expect(await adapter.findOrCreateCustomer(...ACME, 'c2')).toBe(references.customerId)
    await world.spoil({ match: '^GET .*query', times: 2, ...empty })
    const other = await adapter.findOrCreateCustomer(...ACME, 'c3')
    expect((await world.account()).customers[other]).toMatchObject({ DisplayName: 'Acme (customer)' })
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

  it('sends the email of a new customer', async () => {
    const { world, references } = await openAccount()
    expect((await world.account()).customers[references.customerId]).toMatchObject({
      PrimaryEmailAddr: { Address: 'ann@acme.test' },
    })
  })
})

describe('a request id', () => {
  it.each([
    ['a lost response', { apply: true, destroy: true }],
    ['a response cut short', { cutAfterBytes: 10 }],
    ['a 500 after the change was applied', { apply: true, ...SPOILT.broken }],
  ])('applies a change once in spite of %s', async (_name, fault) => {
    const { world, adapter, create } = await openAccount()
    await world.spoil({ match: INVOICE_POST, ...fault })
    await fail(adapter.sendInvoice(create, 'r1'))
    const first = await adapter.sendInvoice(create, 'r1')
    expect(await adapter.sendInvoice(create, 'r1')).toEqual(first)
    const { invoices, changes, misused } = await world.account()
    expect(Object.keys(invoices)).toEqual([first.Id])
    expect(changes.filter((change) => change.operation === 'create')).toHaveLength(1)
    expect(misused).toEqual([])

    await world.spoil({ match: INVOICE_POST, ...fault })
    const remove = buildRemoveCall(first, 'void')
    await fail(adapter.sendInvoice(remove, 'r2'))
    expect(await adapter.sendInvoice(remove, 'r2')).toMatchObject({ Id: first.Id, SyncToken: '1' })
  })

  it('is independent for every company', async () => {
    const { world, adapter, create } = await openAccount()
    await adapter.sendInvoice(create, 'r1')
    const { realm_id, refresh_token } = credentialsFor('2002')
    const second = world.connect({
      settings: { ...world.settings(), realm_id },
      tokens: { refresh_token, access_token: null, access_good_until: 0 },
    })
    await second.findOrCreateCustomer(...ACME, 'customer')
    await second.sendInvoice(create, 'r1')
    const { realms } = (await world.look()).state
    expect(Object.keys(realms[realm_id]?.invoices ?? {})).toHaveLength(1)
    expect(Object.keys(realms[REALM]?.invoices ?? {})).toHaveLength(1)
  })
})
