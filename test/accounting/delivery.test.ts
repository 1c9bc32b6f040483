import { evictDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { beforeAll, describe, expect, it } from 'vitest'
import { MAX_ATTEMPTS } from '../../src/accounting/decisions.ts'
import { loadOrder, recordStep } from '../../src/accounting/queries.ts'
import { databaseFor } from '../../src/db/client.ts'
import { makeFault, SPOILT } from '../simulators/accounting-data.ts'
import { migrate, sql } from '../support/app.ts'
import { logLines } from '../support/log.ts'
import { Shop } from './shop.ts'
import { REALM } from './support.ts'

beforeAll(migrate)

const INVOICE_POST = '^POST /v3/company/\\d+/invoice'

describe('an order’s changes', () => {
  it('arrive: created, updated, voided', async () => {
    const shop = await Shop.open()
    const id = await shop.makeOrder({
      description: 'Front print',
      deadline: '2026-05-01',
      tax_id: shop.company.id * 100 + 1,
    })
    expect(await shop.standing(id)).toEqual({ status: 'pending', last_error: null, synced_at: null })
    expect(await shop.deliver()).toBeNull()
    expect(await shop.standing(id)).toEqual({ status: 'synced', last_error: null, synced_at: expect.any(String) })
    expect(await shop.invoices()).toMatchObject([
      { DocNumber: '1001', PrivateNote: 'Front print', DueDate: '2026-05-01', TotalAmt: 123.41, SyncToken: '0' },
    ])

    await shop.call('PATCH', `/orders/${id}`, {
      description: 'Back print',
      deadline: '2026-06-01',
      discount_amount: 14,
      discount_amount_type: 'fixed',
    })
    expect(await shop.standing(id)).toMatchObject({ status: 'pending', synced_at: expect.any(String) })
    await shop.deliver()
    expect(await shop.invoices()).toMatchObject([
      { DocNumber: '1001', PrivateNote: 'Back print', DueDate: '2026-06-01', TotalAmt: 108.25, SyncToken: '1' },
    ])

    await shop.call('DELETE', `/orders/${id}`)
    await shop.deliver()
    expect(await shop.changes()).toEqual(['customer', 'create', 'update', 'void'])
    expect(await shop.open()).toEqual([])
    expect(shop.wakeCalls).toBe(3)
  })

  it('are deleted there when the company wants that', async () => {
    const shop = await Shop.open({ delete_mode: 'delete' })
    const id = await shop.makeOrder()
    await shop.deliver()
    await shop.call('DELETE', `/orders/${id}`)
    await shop.deliver()
    expect(await shop.changes()).toEqual(['customer', 'create', 'delete'])
    expect(await shop.invoices()).toEqual([])
  })

  it('are told only when the request, else the company, says so, and the integration is enabled', async () => {
    const shop = await Shop.open()
    const id = await shop.makeOrder({ accounting_sync_enabled: false })
    expect(shop.wakeCalls).toBe(0)
    expect(await shop.standing(id)).toEqual({ status: 'not_synced', last_error: null, synced_at: null })
    await sql('UPDATE companies SET accounting_sync_enabled = 0 WHERE id = ?', shop.company.id)
    await shop.call('PATCH', `/orders/${id}`, { title: 'A' })
    expect(await shop.open()).toEqual([])
    await shop.call('PATCH', `/orders/${id}`, { title: 'B', accounting_sync_enabled: true })
    expect(await shop.open()).toHaveLength(1)
    expect(shop.wakeCalls).toBe(1)
    await shop.connect({}, false)
    await shop.call('PATCH', `/orders/${id}`, { title: 'C', accounting_sync_enabled: true })
    expect(await shop.open()).toHaveLength(1)
    expect(shop.wakeCalls).toBe(1)
    expect(await shop.deliver()).toBeNull()
    expect(await shop.world.lines()).toEqual([])
    await shop.connect({}, true)
    await shop.deliver()
    expect(await shop.changes()).toEqual(['customer', 'create'])
  })

  it('collapse while they wait, and a deletion cancels what was not sent', async () => {
    const shop = await Shop.open()
    const [kept, gone, removed] = [await shop.makeOrder(), await shop.makeOrder(), await shop.makeOrder()]
    for (const title of ['A', 'B', 'C']) await shop.call('PATCH', `/orders/${kept}`, { title, description: title })
    await shop.call('DELETE', `/orders/${gone}`)
    await shop.deliver()
    expect(await shop.changes()).toEqual(['customer', 'create', 'create'])
    for (const title of ['D', 'E']) await shop.call('PATCH', `/orders/${removed}`, { title })
    await shop.call('PATCH', `/orders/${kept}`, { description: 'F' })
    await shop.call('PATCH', `/orders/${kept}`, { description: 'G' })
    await shop.call('DELETE', `/orders/${removed}`)
    await shop.deliver()
    expect((await shop.changes()).slice(3).sort()).toEqual(['update', 'void'])
    expect(await shop.invoices()).toContainEqual(expect.objectContaining({ DocNumber: '1001', PrivateNote: 'G' }))
    expect(await shop.open()).toEqual([])
  })

  it('keep their order: nothing of an order passes a call without an answer, and other orders go on', async () => {
    const shop = await Shop.open()
    const [first, second] = [await shop.makeOrder({ description: 'old' }), await shop.makeOrder()]
    await shop.world.spoil({ match: INVOICE_POST, apply: true, destroy: true })
    const at = await shop.deliver()
    expect(at).toBeGreaterThan(Date.now())
    expect(await shop.standing(second)).toMatchObject({ status: 'synced' })
    expect(await shop.open()).toMatchObject([{ order_id: first, state: 'sent', attempts: 1 }])

    await shop.call('PATCH', `/orders/${first}`, { description: 'new' })
    await shop.deliver()
    expect(await shop.open()).toMatchObject([
      { state: 'sent', operation: 'create' },
      { state: 'pending', operation: 'update' },
    ])
    await shop.passTime()
    await shop.deliver()
    expect(await shop.changes()).toEqual(['customer', 'create', 'create', 'update'])
    expect(await shop.invoices()).toContainEqual(expect.objectContaining({ DocNumber: '1001', PrivateNote: 'new' }))
  })
})

describe('a call that fails', () => {
  it.each([
    ['500', SPOILT.broken],
    ['a page with 503', SPOILT.unavailable],
    ['a fault inside 200', SPOILT.faultInside],
    ['a connection that ends', { destroy: true }],
    ['an answer that is cut', { cutAfterBytes: 10 }],
    ['an applied change whose answer is lost', { apply: true, destroy: true }],
    ['an applied change answered with 500', { apply: true, ...SPOILT.broken }],
  ])('is repeated to the letter after %s', async (_, fault) => {
    const shop = await Shop.open()
    const id = await shop.makeOrder()
    await shop.world.spoil({ match: INVOICE_POST, ...fault })
    const before = Date.now()
    const at = await shop.deliver()
    expect(at).toBeGreaterThan(before)
    expect(at).toBeLessThan(Date.now() + 2_000)
    expect(await shop.standing(id)).toMatchObject({
      status: 'pending',
      last_error: expect.stringContaining('accounting'),
    })
    await shop.passTime()
    expect(await shop.deliver()).toBeNull()
    const [first, second, ...more] = await shop.invoiceCalls()
    expect(more).toEqual([])
    expect(second).toEqual(first)
    expect(await shop.invoices()).toHaveLength(1)
    expect(await shop.standing(id)).toMatchObject({ status: 'synced', last_error: null })
  })

  it('is dead after the last try; an edit finds what was applied and goes on', async () => {
    const shop = await Shop.open()
    const id = await shop.makeOrder()
    await shop.world.spoil({ match: INVOICE_POST, times: -1, apply: true, destroy: true })
    for (let tries = 1; tries <= MAX_ATTEMPTS; tries++) {
      await shop.passTime()
      await shop.deliver()
    }
    expect(await shop.open()).toMatchObject([{ state: 'dead', attempts: MAX_ATTEMPTS, request_body: null }])
    expect(await shop.standing(id)).toMatchObject({ status: 'dead', last_error: expect.any(String), synced_at: null })
    await shop.world.spoil()
    expect(await shop.deliver()).toBeNull()
    await shop.call('PATCH', `/orders/${id}`, { description: 'again' })
    expect(await shop.standing(id)).toMatchObject({ status: 'pending', last_error: null })
    await shop.deliver()
    expect(await shop.changes()).toEqual(['customer', 'create', 'update'])
    expect(await shop.invoices()).toMatchObject([{ PrivateNote: 'again' }])
  })

  it('is dead, and may have been applied: a deletion still finds the invoice and voids it', async () => {
    const shop = await Shop.open()
    const id = await shop.makeOrder()
    await shop.world.spoil({ match: INVOICE_POST, times: MAX_ATTEMPTS, apply: true, destroy: true })
    for (let tries = 1; tries <= MAX_ATTEMPTS; tries++) {
      await shop.passTime()
      await shop.deliver()
    }
    expect(await shop.standing(id)).toMatchObject({ status: 'dead' })
    await shop.call('DELETE', `/orders/${id}`)
    expect(await shop.deliver()).toBeNull()
    expect(await shop.changes()).toEqual(['customer', 'create', 'void'])
    expect(await shop.open()).toEqual([])
  })

  it.each([
    ['429', SPOILT.throttled],
    ['XML', SPOILT.throttledXml],
  ])('pauses the company for a minute when throttled by %s, and counts no try', async (_, fault) => {
    const shop = await Shop.open()
    const [first, second] = [await shop.makeOrder(), await shop.makeOrder()]
    await shop.world.spoil({ match: INVOICE_POST, ...fault })
    const at = await shop.deliver()
    expect(at).toBeGreaterThan(Date.now() + 55_000)
    expect(at).toBeLessThanOrEqual(Date.now() + 60_000)
    expect(await shop.open()).toMatchObject([
      { order_id: first, state: 'sent', attempts: 0 },
      { order_id: second, state: 'pending', attempts: 0 },
    ])
    expect(await shop.deliver()).toBe(at)
    expect(await shop.invoiceCalls()).toHaveLength(1)
    await shop.passTime()
    await shop.deliver()
    const calls = await shop.invoiceCalls()
    expect(calls).toHaveLength(3)
    expect(calls[1]).toEqual(calls[0])
  })

  it('is made again at once with a new token when the token ran out', async () => {
    const shop = await Shop.open()
    const id = await shop.makeOrder()
    await shop.deliver()
    await shop.world.steer({ action: 'expire_access' })
    await shop.call('PATCH', `/orders/${id}`, { description: 'x' })
    expect(await shop.deliver()).toBeNull()
    expect(await shop.changes()).toEqual(['customer', 'create', 'update'])
    const refreshes = (await shop.world.lines()).filter((line) => line.startsWith('POST /oauth2'))
    expect(refreshes).toHaveLength(2)
  })

  it('stops the company when the consent is lost; connecting it again lets the queue go on', async () => {
    const shop = await Shop.open()
    const id = await shop.makeOrder()
    await shop.deliver()
    await shop.world.steer({ action: 'revoke_grant', realm_id: REALM })
    await shop.call('PATCH', `/orders/${id}`, { description: 'x' })
    const other = await shop.makeOrder()
    expect(await shop.deliver()).toBeNull()
    for (const orderId of [id, other]) {
      expect(await shop.standing(orderId)).toMatchObject({
        status: 'pending',
        last_error: expect.stringContaining('invalid_grant'),
      })
    }
    const calls = (await shop.world.lines()).length
    expect(await shop.deliver()).toBeNull()
    expect(await shop.world.lines()).toHaveLength(calls)

    const refresh_token = `refresh-${REALM}-again`
    await shop.world.steer({ action: 'grant', realm_id: REALM, refresh_token })
    await shop.connect({ refresh_token })
    await shop.deliver()
    expect(await shop.standing(id)).toMatchObject({ status: 'synced', last_error: null })
    expect(await shop.changes()).toEqual(['customer', 'create', 'update', 'create'])
  })

  it('is merged when somebody else edited the invoice, whose other fields stay', async () => {
    const shop = await Shop.open()
    const id = await shop.makeOrder()
    await shop.deliver()
    const [{ Id }] = await shop.invoices()
    await shop.world.steer({ action: 'edit_invoice', realm_id: REALM, id: Id, fields: { Memo: 'by hand' } })
    await shop.call('PATCH', `/orders/${id}`, { description: 'ours' })
    expect(await shop.deliver()).toBeNull()
    expect(await shop.invoices()).toMatchObject([{ Memo: 'by hand', PrivateNote: 'ours' }])
    const [, stale, merged] = await shop.invoiceCalls()
    expect(merged?.requestId).not.toBe(stale?.requestId)
    expect((await shop.world.books()).misused).toEqual([])

    await shop.world.steer({ action: 'edit_invoice', realm_id: REALM, id: Id, fields: { Memo: 'again' } })
    await shop.call('DELETE', `/orders/${id}`)
    await shop.deliver()
    expect((await shop.world.books()).voided).toEqual([Id])
  })

  it('is dead after five stale answers', async () => {
    const shop = await Shop.open()
    const id = await shop.makeOrder()
    await shop.deliver()
    await shop.world.spoil({
      match: INVOICE_POST,
      times: -1,
      status: 400,
      body: makeFault('5010', 'Stale Object Error'),
    })
    await shop.call('PATCH', `/orders/${id}`, { description: 'x' })
    expect(await shop.deliver()).toBeNull()
    const ids = (await shop.invoiceCalls()).slice(1).map((call) => call.requestId)
    expect(new Set(ids).size).toBe(5)
    expect(await shop.standing(id)).toMatchObject({ status: 'dead', last_error: expect.stringContaining('5010') })
  })

  it('of an invoice that is gone: an update is parked, a void is done', async () => {
    const shop = await Shop.open()
    const [edited, deleted] = [await shop.makeOrder(), await shop.makeOrder()]
    await shop.deliver()
    for (const { Id } of await shop.invoices())
      await shop.world.steer({ action: 'remove_invoice', realm_id: REALM, id: Id })
    await shop.call('PATCH', `/orders/${edited}`, { description: 'x' })
    await shop.call('DELETE', `/orders/${deleted}`)
    await shop.deliver()
    expect(await shop.standing(edited)).toMatchObject({ status: 'parked', last_error: expect.stringContaining('610') })
    expect(await shop.open()).toMatchObject([{ order_id: edited, state: 'parked' }])
  })

  it('is parked when its number belongs to another invoice', async () => {
    const shop = await Shop.open()
    const first = await shop.makeOrder()
    await shop.deliver()
    const [{ Id }] = await shop.invoices()
    const fields = { DocNumber: '1002', TxnDate: '2020-01-01' }
    await shop.world.steer({ action: 'edit_invoice', realm_id: REALM, id: Id, fields })
    const second = await shop.makeOrder()
    await shop.deliver()
    expect(await shop.standing(first)).toMatchObject({ status: 'synced' })
    expect(await shop.standing(second)).toMatchObject({ status: 'parked', last_error: expect.stringContaining('6140') })
    expect(await shop.invoices()).toHaveLength(1)
  })

  it('adopts the invoice of its number that is ours', async () => {
    const shop = await Shop.open()
    const id = await shop.makeOrder()
    await shop.deliver()
    await sql('DELETE FROM accounting_links WHERE company_id = ?', shop.company.id)
    await shop.call('PATCH', `/orders/${id}`, { description: 'x' })
    expect(await shop.deliver()).toBeNull()
    expect(await shop.changes()).toEqual(['customer', 'create', 'update'])
    expect(await shop.standing(id)).toMatchObject({ status: 'synced' })
  })

  it('goes on when the invoices of the number could not be listed', async () => {
    const shop = await Shop.open()
    const id = await shop.makeOrder()
    await shop.deliver()
    await sql('DELETE FROM accounting_links WHERE company_id = ?', shop.company.id)
    await shop.world.spoil({ match: '^GET .*query', ...SPOILT.broken })
    await shop.call('PATCH', `/orders/${id}`, { description: 'x' })
    expect(await shop.deliver()).toBeGreaterThan(Date.now())
    expect(await shop.open()).toMatchObject([{ state: 'sent', operation: 'create', attempts: 1 }])
    await shop.passTime()
    await shop.deliver()
    expect(await shop.changes()).toEqual(['customer', 'create', 'update'])
  })

  it.each(['2020', '2050', '2500', '6000', '6070', '6090', '6240'])(
    'is dead for code %s, until the order is edited',
    async (code) => {
      const shop = await Shop.open()
      const id = await shop.makeOrder()
      await shop.world.spoil({ match: INVOICE_POST, status: 400, body: makeFault(code, 'Refused') })
      expect(await shop.deliver()).toBeNull()
      expect(await shop.standing(id)).toMatchObject({ status: 'dead', last_error: expect.stringContaining(code) })
      await shop.call('PATCH', `/orders/${id}`, { description: 'mended' })
      await shop.deliver()
      expect(await shop.standing(id)).toMatchObject({ status: 'synced', last_error: null })
      expect(await shop.invoices()).toMatchObject([{ PrivateNote: 'mended' }])
    },
  )

  it.each(['6190', '6210', '6540'])('is parked for code %s', async (code) => {
    const shop = await Shop.open()
    const id = await shop.makeOrder()
    await shop.world.spoil({ match: INVOICE_POST, status: 400, body: makeFault(code, 'Closed') })
    expect(await shop.deliver()).toBeNull()
    expect(await shop.standing(id)).toMatchObject({ status: 'parked', last_error: expect.stringContaining(code) })
  })

  it('backs off, and dies, when the customer cannot be had either', async () => {
    const shop = await Shop.open()
    const id = await shop.makeOrder()
    await shop.world.spoil({ match: '^GET .*query', times: -1, ...SPOILT.unavailable })
    for (let tries = 1; tries <= MAX_ATTEMPTS; tries++) {
      await shop.passTime()
      await shop.deliver()
    }
    expect(await shop.standing(id)).toMatchObject({ status: 'dead' })
    expect(await shop.invoiceCalls()).toEqual([])
  })
})

describe('the connection', () => {
  it('leaves ids of other books alone', async () => {
    const shop = await Shop.open()
    const [id, removed] = [await shop.makeOrder(), await shop.makeOrder()]
    await shop.deliver()
    await shop.connect({ realm_id: '2002', refresh_token: 'refresh-2002-first' })
    await shop.call('PATCH', `/orders/${id}`, { description: 'x' })
    await shop.call('DELETE', `/orders/${removed}`)
    expect(await shop.deliver()).toBeNull()
    const { realms } = (await shop.world.look()).state
    expect(realms['1001']?.changes.map((change) => change.operation)).toEqual(['customer', 'create', 'create'])
    expect(realms['2002']?.changes.map((change) => change.operation)).toEqual(['customer', 'create'])
  })

  it('keeps rotated tokens through a restart', async () => {
    const shop = await Shop.open()
    const id = await shop.makeOrder()
    await shop.deliver()
    for (const description of ['a', 'b']) {
      await evictDurableObject(shop.object)
      await shop.world.steer({ action: 'expire_access' })
      await shop.call('PATCH', `/orders/${id}`, { description })
      expect(await shop.deliver()).toBeNull()
    }
    expect(await shop.changes()).toEqual(['customer', 'create', 'update', 'update'])
  })

  it('is stopped, and says so, when the credentials cannot be read', async () => {
    const shop = await Shop.open()
    const id = await shop.makeOrder()
    await sql(`UPDATE integrations SET credentials = 'v1.00000000.AAAA' WHERE company_id = ?`, shop.company.id)
    expect(await shop.deliver()).toBeNull()
    expect(await shop.standing(id)).toMatchObject({
      status: 'pending',
      last_error: 'The stored credentials were encrypted with another CREDENTIALS_KEY.',
    })
    await shop.connect()
    await shop.deliver()
    expect(await shop.standing(id)).toMatchObject({ status: 'synced' })
  })

  it('shows no secret anywhere: not in the database, not in the log, not in answers', async () => {
    const shop = await Shop.open({ client_secret: 'local-client-secret' })
    const id = await shop.makeOrder()
    await shop.deliver()
    await shop.world.steer({ action: 'expire_access' })
    await shop.world.spoil({ match: '^POST /v3', times: 2, ...SPOILT.tokenExpired })
    await shop.call('PATCH', `/orders/${id}`, { description: 'x' })
    await shop.deliver()
    await shop.world.steer({ action: 'revoke_grant', realm_id: REALM })
    await shop.passTime()
    await shop.deliver()
    const { calls, state } = await shop.world.look()
    const sent = calls.flatMap((call) => /refresh_token=([^&]+)/.exec(call.body)?.[1] ?? [])
    const secrets = [...Object.keys(state.accessTokens), ...sent, 'local-client-secret']
    secrets.push(...calls.flatMap((call) => /^Bearer (.+)$/.exec(call.headers.authorization ?? '')?.[1] ?? []))
    expect(new Set(secrets).size).toBeGreaterThan(4)

    const tables = await sql<{ name: string }>(
      `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '%fts%' AND name NOT LIKE '\\_cf%' ESCAPE '\\'`,
    )
    const seen = [JSON.stringify(logLines), JSON.stringify(await shop.standing(id))]
    for (const { name } of tables) seen.push(JSON.stringify(await sql(`SELECT * FROM "${name}"`)))
    expect(seen.join('\n')).toContain('invalid_grant')
    for (const secret of secrets) expect(seen.join('\n').includes(secret), secret).toBe(false)
  })
})

describe('a step that was overtaken', () => {
  it('leaves the notice as the later one stored it', async () => {
    const shop = await Shop.open()
    const id = await shop.makeOrder()
    await shop.world.spoil({ match: INVOICE_POST, ...SPOILT.broken })
    await shop.deliver()
    const db = databaseFor(env.DB, shop.company.id)
    const [sent] = (await loadOrder(db, shop.company.id, id)).notices
    if (!sent) throw new Error('There is no notice.')
    const late = { ...sent, requestId: 'another' }
    await recordStep(db, shop.company.id, late, { notice: { state: 'dead' } }, Date.now())
    expect(await shop.open()).toMatchObject([{ state: 'sent', request_id: sent.requestId }])
  })
})
