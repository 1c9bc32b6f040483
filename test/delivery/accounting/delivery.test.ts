import { env } from 'cloudflare:workers'
import { describe, expect, it } from 'vitest'
import { loadOrder, recordStep } from '../../../src/delivery/accounting/queries.ts'
import { openDatabase } from '../../../src/kernel/db/client.ts'
import { SPOILT } from '../../../src/simulators/accounting-data.ts'
import { sql } from '../../support/app.ts'
import { Shop } from './shop.ts'
import { INVOICE_POST } from './support.ts'

describe('an order’s changes', () => {
  it('are delivered: created, updated, voided', async () => {
    const shop = await Shop.open()
    const id = await shop.makeOrder({
      description: 'Front print',
      deadline: '2026-05-01',
      tax_id: shop.company.id * 100 + 1,
    })
    expect(await shop.accounting(id)).toEqual({ status: 'pending', last_error: null, synced_at: null })
    expect(await shop.deliver()).toBeNull()
    expect(await shop.accounting(id)).toEqual({ status: 'synced', last_error: null, synced_at: expect.any(String) })
    expect(await shop.invoices()).toMatchObject([
      { DocNumber: '1001', PrivateNote: 'Front print', DueDate: '2026-05-01', TotalAmt: 123.41, SyncToken: '0' },
    ])

    await shop.call('PATCH', `/orders/${id}`, {
      description: 'Back print',
      deadline: '2026-06-01',
      discount_amount: 14,
      discount_amount_type: 'fixed',
    })
    expect(await shop.accounting(id)).toMatchObject({ status: 'pending', synced_at: expect.any(String) })
    await shop.deliver()
    expect(await shop.invoices()).toMatchObject([
      { DocNumber: '1001', PrivateNote: 'Back print', DueDate: '2026-06-01', TotalAmt: 108.25, SyncToken: '1' },
    ])

    await shop.deliverDeletion(id)
    expect(await shop.changes()).toEqual(['customer', 'create', 'update', 'void'])
    // Each names the version before it: none is refused as stale, and repeated.
    expect(await shop.invoiceCalls()).toHaveLength(3)
    expect(await shop.open()).toEqual([])
    expect(shop.startCalls).toBe(3)
  })

  it('have the lines of their own invoice, where another company’s order with the same id has another one', async () => {
    const other = await Shop.open({}, 'DB')
    await other.makeOrder()
    const id = await other.makeOrder()
    const shop = await Shop.open({}, 'DB')
    await sql('UPDATE companies SET last_order_id = ? WHERE id = ?', id - 1, shop.company.id)
    expect(await shop.makeOrder()).toBe(id)
    await shop.deliver()
    expect(await shop.invoices()).toMatchObject([{ DocNumber: '1001', TotalAmt: 114 }])
  })

  it('of an order that was deleted without them meanwhile make no invoice', async () => {
    const { shop, id } = await Shop.openWithOrder()
    const sent = { deleted: true, accounting_sync_enabled: false }
    expect((await shop.call('PATCH', `/orders/${id}`, sent)).status).toBe(200)
    await shop.deliver()
    expect([await shop.changes(), await shop.open()]).toEqual([[], []])
  })

  it('of a deletion void nothing where the order was restored without them meanwhile', async () => {
    const { shop, id } = await Shop.openDelivered()
    await shop.call('DELETE', `/orders/${id}`)
    const sent = { deleted: false, accounting_sync_enabled: false }
    expect((await shop.call('PATCH', `/orders/${id}`, sent)).status).toBe(200)
    await shop.deliver()
    expect(await shop.changes()).toEqual(['customer', 'create', 'update'])
  })

  it('need a person where the invoice was voided: it can neither be changed nor its number be used again', async () => {
    const { shop, id } = await Shop.openDelivered()
    await shop.deliverDeletion(id)
    const synced_at = expect.any(String)
    expect(await shop.accounting(id)).toEqual({ status: 'synced', last_error: null, synced_at })
    await shop.call('PATCH', `/orders/${id}`, { deleted: false })
    await shop.deliver()
    expect(await shop.changes()).toEqual(['customer', 'create', 'void'])
    expect(await shop.accounting(id)).toMatchObject({ status: 'dead', last_error: expect.any(String), synced_at })
  })

  it('need a person, too, where the order of a voided invoice comes back for another client', async () => {
    const { shop, id } = await Shop.openDelivered()
    await shop.deliverDeletion(id)
    const { client } = (await shop.call('POST', '/clients', { company_name: 'Other' })).body
    await shop.call('PATCH', `/orders/${id}`, { deleted: false, client_id: client.id })
    await shop.deliver()
    expect(await shop.statusOf(id)).toMatch(/^parked: .*6140/)
    expect(await shop.changes()).toEqual(['customer', 'create', 'void', 'customer'])
  })

  it('are deleted in the accounting system when the company is configured so, and come back', async () => {
    const shop = await Shop.open({ delete_mode: 'delete' })
    const id = await shop.deliverOrder()
    await shop.deliverDeletion(id)
    expect(await shop.invoices()).toEqual([])
    await shop.call('PATCH', `/orders/${id}`, { deleted: false })
    await shop.deliver()
    expect(await shop.changes()).toEqual(['customer', 'create', 'delete', 'create'])
    expect(await shop.invoices()).toMatchObject([{ DocNumber: '1001' }])
    expect(await shop.accounting(id)).toMatchObject({ status: 'synced' })
  })

  it('are none, and start no delivery, where the request or the integration disables the sync, or the write fails', async () => {
    const { shop, id } = await Shop.openWithOrder({ accounting_sync_enabled: false })
    expect(await shop.accounting(id)).toEqual({ status: 'not_synced', last_error: null, synced_at: null })
    await shop.call('PATCH', '/orders/999999', { title: 'none' })
    await shop.call('POST', '/orders', { title: 'T', client_id: 999_999 })
    await shop.connect({}, false)
    await shop.call('PATCH', `/orders/${id}`, { title: 'C', accounting_sync_enabled: true })
    expect(await shop.open()).toEqual([])
    expect(shop.startCalls).toBe(0)
  })

  it('collapse while they wait, and a deletion cancels what was not sent', async () => {
    const shop = await Shop.open()
    const [kept, gone, removed] = [await shop.makeOrder(), await shop.makeOrder(), await shop.makeOrder()]
    for (const title of ['A', 'B', 'C']) await shop.call('PATCH', `/orders/${kept}`, { title, description: title })
    await shop.deliverDeletion(gone)
    expect(await shop.changes()).toEqual(['customer', 'create', 'create'])
    for (const title of ['D', 'E']) await shop.call('PATCH', `/orders/${removed}`, { title })
    await shop.call('PATCH', `/orders/${kept}`, { description: 'F' })
    await shop.call('PATCH', `/orders/${kept}`, { description: 'G' })
    await shop.deliverDeletion(removed)
    expect((await shop.changes()).slice(3).sort()).toEqual(['update', 'void'])
    expect(await shop.invoices()).toContainEqual(expect.objectContaining({ DocNumber: '1001', PrivateNote: 'G' }))
    expect(await shop.open()).toEqual([])
  })

  it('stay in order: nothing overtakes a call without a response, and other orders are delivered', async () => {
    const shop = await Shop.open()
    const [first, second] = [await shop.makeOrder({ description: 'old' }), await shop.makeOrder()]
    await shop.world.spoil({ match: INVOICE_POST, apply: true, destroy: true })
    const at = await shop.deliver()
    expect(at).toBeGreaterThan(Date.now())
    expect(await shop.accounting(second)).toMatchObject({ status: 'synced' })
    expect(await shop.open()).toMatchObject([{ order_id: first, state: 'sent', attempts: 1 }])

    await shop.deliverEdit(first, 'new')
    expect(await shop.open()).toMatchObject([
      { state: 'sent', operation: 'create' },
      { state: 'pending', operation: 'update' },
    ])
    await shop.deliverLater()
    expect(await shop.changes()).toEqual(['customer', 'create', 'create', 'update'])
    expect(await shop.invoices()).toContainEqual(expect.objectContaining({ DocNumber: '1001', PrivateNote: 'new' }))
  })
})

describe('a step that was overtaken', () => {
  it('leaves the event as the later one stored it', async () => {
    const { shop, id } = await Shop.openWithOrder()
    await shop.world.spoil({ match: INVOICE_POST, ...SPOILT.broken })
    await shop.deliver()
    const context = { companyId: shop.company.id, db: openDatabase(env.DB) }
    const [sent] = (await loadOrder(context, id, Date.now())).events
    if (!sent) throw new Error('There is no event.')
    const late = { ...sent, request_id: 'another' }
    await recordStep(context, late, { event: { state: 'dead' } }, Date.now())
    expect(await shop.open()).toMatchObject([{ state: 'sent', request_id: sent.request_id }])
  })
})
