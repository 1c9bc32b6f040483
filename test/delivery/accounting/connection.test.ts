import { evictDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { describe, expect, it, vi } from 'vitest'
import { openDatabase } from '../../../src/kernel/db/client.ts'
import { decryptCredentials, encryptCredentials } from '../../../src/kernel/db/credentials.ts'
import { listDueCompanies } from '../../../src/kernel/db/sweep.ts'
import { SPOILT } from '../../../src/simulators/accounting-data.ts'
import { sql } from '../../support/app.ts'
import { logLines } from '../../support/log.ts'
import { Shop } from './shop.ts'
import { OTHER_REALM, REALM } from './support.ts'

describe('the connection', () => {
  it('is stopped when the consent is lost, and resumes when the company connects again', async () => {
    const { shop, id } = await Shop.openDelivered()
    await shop.world.steer({ action: 'revoke_grant', realm_id: REALM })
    await shop.call('PATCH', `/orders/${id}`, { description: 'x' })
    const other = await shop.makeOrder()
    expect(await shop.deliver()).toBeNull()
    for (const each of [id, other]) expect(await shop.statusOf(each)).toMatch(/^pending: .*invalid_grant/)
    const calls = (await shop.world.lines()).length
    expect(await shop.deliver()).toBeNull()
    expect(await shop.world.lines()).toHaveLength(calls)

    await shop.reconnect()
    await shop.deliver()
    expect(await shop.accounting(id)).toMatchObject({ status: 'synced', last_error: null })
    expect(await shop.changes()).toEqual(['customer', 'create', 'update', 'create'])
  })

  it('is stopped when the API host has no token endpoint, and resumes with a token address', async () => {
    const { shop, id } = await Shop.openWithOrder()
    await shop.world.steer({ action: 'move_tokens' })
    expect(await shop.deliver()).toBeNull()
    expect(await shop.statusOf(id)).toMatch(
      /^pending: .*no token endpoint at http.*: set token_url of the accounting_sync integration/,
    )
    const calls = (await shop.world.lines()).length
    expect(await shop.deliverLater()).toBeNull()
    expect(await shop.world.lines()).toHaveLength(calls)

    await shop.connect({}, true, { token_url: shop.world.tokenUrl })
    await shop.deliver()
    expect(await shop.accounting(id)).toMatchObject({ status: 'synced', last_error: null })
  })

  it.each([
    ['an empty 401', { status: 401, body: '' }],
    ['a page with 403', { status: 403, body: '<html>Request blocked</html>' }],
    ['a text with 403', { status: 403, body: 'Blocked' }],
    ['a page with 200', { status: 200, body: '<html>Maintenance</html>' }],
    ['a redirect', { status: 302, headers: { location: '/maintenance' }, body: '' }],
    ['404', { status: 404, body: '' }],
  ])('is tried again when an address that has issued tokens responds once with %s', async (_, fault) => {
    const { shop, id } = await Shop.openDelivered()
    await shop.world.steer({ action: 'expire_access' })
    await shop.world.spoil({ match: '^POST /oauth2', ...fault })
    expect(await shop.deliverEdit(id, 'x')).toBeGreaterThan(Date.now())
    expect(await shop.open()).toMatchObject([{ attempts: 1 }])
    expect(await shop.deliverLater()).toBeNull()
    expect(await shop.accounting(id)).toMatchObject({ status: 'synced', last_error: null })
  })

  it('sends its tokens to no other host, which was entered with the refresh token that they replaced', async () => {
    const { shop, id } = await Shop.openDelivered()
    await shop.connect({}, true, { token_url: shop.world.tokenUrl })
    await shop.world.steer({ action: 'expire_access' })
    await shop.call('PATCH', `/orders/${id}`, { description: 'x' })
    expect(await shop.deliver()).toBeNull()
    expect(await shop.statusOf(id)).toMatch(/^pending: .*invalid_grant/)
  })

  it('does not use ids of another remote account', async () => {
    const shop = await Shop.open()
    const [id, removed] = [await shop.makeOrder(), await shop.makeOrder()]
    await shop.deliver()
    await shop.connectToOther()
    await shop.call('PATCH', `/orders/${id}`, { description: 'x' })
    expect(await shop.deliverDeletion(removed)).toBeNull()
    expect(await shop.changes()).toEqual(['customer', 'create', 'create'])
    expect(await shop.changes(OTHER_REALM)).toEqual(['customer', 'create'])
  })

  it('gets no customer in another remote account by the deletion of an order', async () => {
    const { shop, id } = await Shop.openDelivered()
    await shop.connectToOther()
    expect(await shop.deliverDeletion(id)).toBeNull()
    expect(await shop.open()).toEqual([])
    expect(await shop.changes(OTHER_REALM)).toEqual([])
  })

  it('does not use ids of another remote account after a test of the connection during a delivery', async () => {
    const shop = await Shop.open()
    const [id, waiting] = [await shop.makeOrder(), await shop.makeOrder()]
    await shop.deliver()
    await shop.call('PATCH', `/orders/${id}`, { description: 'x' })
    await shop.call('PATCH', `/orders/${waiting}`, { description: 'x' })
    const { delivered } = await shop.holdInvoice(3)
    await shop.connectToOther()
    expect(await shop.object.check(shop.company.id)).toMatchObject({ ok: true })
    await shop.world.spoil()
    expect(await delivered).toBeNull()
    expect(await shop.deliverEdit(id, 'y')).toBeNull()
    expect(await shop.changes()).toEqual(['customer', 'create', 'create', 'update'])
    expect(await shop.changes(OTHER_REALM)).toEqual(['customer', 'create', 'create'])
    expect(await shop.open()).toEqual([])
  })

  it.each([
    ['its integration is disabled', 'integrations SET enabled', 'company_id', 0],
    ['the company is suspended', 'companies SET suspended', 'id', 1],
    ['its deliveries are paused', 'companies SET deliveries_paused', 'id', 1],
  ])('starts no other call of a run during which %s', async (_, field, key, value) => {
    const shop = await Shop.open()
    await Promise.all([shop.makeOrder(), shop.makeOrder(), shop.makeOrder()])
    const set = (to: number) => sql(`UPDATE ${field} = ? WHERE ${key} = ?`, to, shop.company.id)
    const { delivered } = await shop.holdInvoice(1)
    await set(value)
    await shop.world.spoil()
    expect(await delivered).toBeNull()
    expect(await shop.changes()).toEqual(['customer', 'create'])
    expect(await shop.open()).toMatchObject([{ state: 'pending' }, { state: 'pending' }])
    await set(1 - value)
    expect(await shop.deliver()).toBeNull()
    expect(await shop.changes()).toEqual(['customer', 'create', 'create', 'create'])
  })

  it('sends what is edited after a switch to another account only there, even during a run', async () => {
    const shop = await Shop.open()
    const [sending, waiting] = [await shop.makeOrder(), await shop.makeOrder()]
    const { delivered } = await shop.holdInvoice(1)
    await shop.connectToOther()
    for (const id of [sending, waiting]) await shop.call('PATCH', `/orders/${id}`, { description: 'x' })
    await shop.world.spoil()
    expect(await delivered).toBeNull()
    expect(await shop.changes()).toEqual(['customer', 'create'])
    expect(await shop.changes(OTHER_REALM)).toEqual(['customer', 'create', 'create'])
    expect(await shop.open()).toEqual([])
  })

  it('finds the customers of an imported company again, but for those that were linked by hand', async () => {
    const shop = await Shop.open()
    const { body } = await shop.call('POST', '/clients', { company_name: 'By hand' })
    const linked = body.client.id
    await sql(
      "UPDATE clients SET accounting_customer_id = '42', accounting_customer_linked = id = ?2 WHERE company_id = ?1",
      ...[shop.company.id, linked],
    )
    await shop.deliverOrder()
    const [invoice] = await shop.invoices()
    const [customer] = Object.values((await shop.world.account()).customers)
    expect(customer).toMatchObject({ DisplayName: 'Acme' })
    expect(invoice.CustomerRef.value).toBe(customer?.Id)
    const ids = await sql(
      'SELECT accounting_customer_id AS id FROM clients WHERE company_id = ? ORDER BY id',
      shop.company.id,
    )
    expect(ids).toEqual([{ id: customer?.Id }, { id: '42' }])
  })

  it('keeps its tokens where a recovery reads the last number behind a database that was set back', async () => {
    const { shop, id } = await Shop.openDelivered()
    const before = (await shop.connection())?.tokens
    await shop.world.steer({ action: 'expire_access' })
    await shop.deliverEdit(id, 'a')
    await sql('UPDATE accounting_connections SET tokens = ? WHERE company_id = ?', before, shop.company.id)
    expect(await shop.object.findLastNumber(shop.company.id, 100_000)).toBeGreaterThan(0)
    await evictDurableObject(shop.object)
    await shop.world.steer({ action: 'expire_access' })
    expect(await shop.deliverEdit(id, 'b')).toBeNull()
    expect(await shop.accounting(id)).toMatchObject({ status: 'synced', last_error: null })
  })

  it('goes on with tokens that an older version has stored, without the hosts that they are for', async () => {
    const { shop, id } = await Shop.openDelivered()
    const { id: companyId } = shop.company
    const of = [env.CREDENTIALS_KEY, companyId, 'accounting_sync'] as const
    const { granted_for, ...older } = Object(await decryptCredentials(...of, String((await shop.connection())?.tokens)))
    expect(granted_for).toContain('http://')
    const tokens = await encryptCredentials(...of, older)
    await sql('UPDATE accounting_connections SET tokens = ? WHERE company_id = ?', tokens, companyId)
    await evictDurableObject(shop.object)
    await shop.world.steer({ action: 'expire_access' })
    expect(await shop.deliverEdit(id, 'x')).toBeNull()
    expect(await shop.accounting(id)).toMatchObject({ status: 'synced', last_error: null })
  })

  it('shares renewed tokens with a test of the changed integration during their renewal', async () => {
    const { shop, id } = await Shop.openDelivered()
    await shop.world.steer({ action: 'expire_access' })
    await shop.call('PATCH', `/orders/${id}`, { description: 'x' })
    await shop.world.spoil({ match: '^POST /oauth2', hold: true, times: -1 })
    const delivered = shop.deliver()
    await vi.waitFor(async () => expect((await shop.world.lines()).at(-1)).toContain('oauth2'), 30_000)
    await shop.connect({ item_id: '1' })
    const calls = (await shop.world.lines()).length
    const tested = shop.object.check(shop.company.id)
    await vi.waitFor(async () => expect((await shop.world.lines()).length).toBeGreaterThan(calls), 30_000)
    await shop.world.spoil()
    expect(await tested).toMatchObject({ ok: true })
    expect(await delivered).toBeNull()
    expect(await shop.accounting(id)).toMatchObject({ status: 'synced', last_error: null })
  })

  it('keeps the tokens of a new consent, although a call with those before it renews them later', async () => {
    const { shop, id } = await Shop.openDelivered()
    await shop.call('PATCH', `/orders/${id}`, { description: 'x' })
    const { delivered } = await shop.holdInvoice(2)
    await shop.connectToOther()
    expect(await shop.object.check(shop.company.id)).toMatchObject({ ok: true })
    await shop.world.steer({ action: 'expire_access' })
    await shop.world.spoil()
    await delivered
    await evictDurableObject(shop.object)
    expect(await shop.deliverEdit(id, 'y')).toBeNull()
    expect(await shop.accounting(id)).toMatchObject({ status: 'synced', last_error: null })
  })

  it('makes no call while its credentials cannot be read, and continues once they can', async () => {
    const { shop, id } = await Shop.openWithOrder()
    const { company } = shop
    const store = (credentials: unknown) =>
      sql('UPDATE integrations SET credentials = ? WHERE company_id = ?', credentials, company.id)
    const [stored] = await sql('SELECT credentials FROM integrations WHERE company_id = ?', company.id)
    await store('v1.00000000.AAAA')
    expect(await shop.deliver()).toBeNull()
    expect(await shop.world.lines()).toEqual([])
    expect(await shop.accounting(id)).toMatchObject({ status: 'pending', last_error: null })
    // As when the deployment has its key again: the integration is as old as before.
    await store(stored?.credentials)
    expect(await listDueCompanies(openDatabase(env[company.home]), Date.now())).toContain(company.id)
    await shop.deliver()
    expect(await shop.accounting(id)).toMatchObject({ status: 'synced' })
  })

  it('leaks no secret into the database, the log or responses', async () => {
    const shop = await Shop.open({ client_secret: 'local-client-secret' })
    const id = await shop.deliverOrder()
    await shop.world.steer({ action: 'expire_access' })
    await shop.world.spoil({ match: '^POST /v3', times: 2, ...SPOILT.tokenExpired })
    await shop.deliverEdit(id, 'x')
    await shop.world.steer({ action: 'revoke_grant', realm_id: REALM })
    await shop.deliverLater()
    const { calls, state } = await shop.world.look()
    const sent = calls.flatMap((call) => /refresh_token=([^&]+)/.exec(call.body)?.[1] ?? [])
    const secrets = [...Object.keys(state.accessTokens), ...sent, 'local-client-secret']
    secrets.push(...calls.flatMap((call) => /^Bearer (.+)$/.exec(call.headers.authorization ?? '')?.[1] ?? []))
    expect(new Set(secrets).size).toBeGreaterThan(4)

    const tables = await sql<{ name: string }>(
      `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '%fts%' AND name NOT LIKE '\\_cf%' ESCAPE '\\'`,
    )
    const seen = [JSON.stringify(logLines), JSON.stringify(await shop.accounting(id))]
    for (const { name } of tables) seen.push(JSON.stringify(await sql(`SELECT * FROM "${name}"`)))
    expect(seen.join('\n')).toContain('invalid_grant')
    for (const secret of secrets) expect(seen.join('\n').includes(secret), secret).toBe(false)
  })
})
