import { describe, expect, it } from 'vitest'
import { buildCreateCall, buildUpdateCall } from '../../../src/delivery/accounting/invoice-payload.ts'
import { ACME, makeLine, makeOrder, openAccount, World } from './support.ts'

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

  it('is updated, and returned with its new version and figures', async () => {
    const { adapter, references, create } = await openAccount()
    const key = await adapter.sendInvoice(create, 'r1')
    const update = buildUpdateCall(makeOrder({ items: [makeLine({ quantity: 2 })] }), references, key)
    const updated = { Id: key.Id, SyncToken: '1', total: 20.57, tax: 1.57 }
    expect(await adapter.sendInvoice(update, 'r2')).toEqual(updated)
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
