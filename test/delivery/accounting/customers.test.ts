import { describe, expect, it } from 'vitest'
import { sql } from '../../support/app.ts'
import { Shop } from './shop.ts'
import { fail, OTHER_REALM, REALM, World } from './support.ts'

/** Runs SQL on the client of a shop. */
function ofClient<T>({ company, clientId }: Shop, text: string, ...params: unknown[]): Promise<T[]> {
  return sql<T>(`${text} WHERE company_id = ?1 AND id = ?2`, company.id, clientId, ...params)
}

/** A shop with a client of that name and an order of the client. */
async function openShop(name: string, stored = name) {
  const shop = await Shop.open()
  const made = await shop.call('POST', '/clients', { company_name: name, email: `${'x'.repeat(120)}@a.test` })
  shop.clientId = made.body.client.id
  await ofClient(shop, 'UPDATE clients SET company_name = ?3', stored)
  return { shop, orderId: await shop.makeOrder() }
}

async function customerNames(shop: Shop): Promise<string[]> {
  return Object.values((await shop.world.account()).customers).map((customer) => customer.DisplayName)
}

async function readClient(shop: Shop) {
  type Row = { accounting_customer_id: string | null; accounting_customer_linked: number }
  return (await ofClient<Row>(shop, 'SELECT accounting_customer_id, accounting_customer_linked FROM clients'))[0]
}

describe('the customer of a client', () => {
  it('has its id as name where nothing of the name is a text that the accounting system accepts', async () => {
    const { shop, orderId } = await openShop('Nothing', '\u0001\u0002')
    expect(await shop.deliver()).toBeNull()
    expect(await shop.accounting(orderId)).toMatchObject({ status: 'synced', last_error: null })
    expect(await customerNames(shop)).toEqual([`Client ${shop.clientId}`])
  })

  it('is found by its derived name', async () => {
    const { shop } = await openShop('Smith: Team Blue')
    await shop.deliver()
    await sql('UPDATE clients SET accounting_customer_id = NULL WHERE company_id = ?', shop.company.id)
    await shop.deliverOrder()
    expect(await shop.changes()).toEqual(['customer', 'create', 'create'])
    expect(await customerNames(shop)).toEqual(['Smith - Team Blue'])
  })

  it('gets another name where a vendor or an employee has its name, and its id is stored', async () => {
    const { shop, orderId } = await openShop('Acme Print')
    await shop.world.steer({ action: 'take_name', realm_id: REALM, name: 'ACME print' })
    expect(await shop.deliver()).toBeNull()
    expect(await shop.accounting(orderId)).toMatchObject({ status: 'synced' })
    expect(await customerNames(shop)).toEqual(['Acme Print (customer)'])
    const [invoice] = await shop.invoices()
    expect(await readClient(shop)).toEqual({
      accounting_customer_id: invoice.CustomerRef.value,
      accounting_customer_linked: 0,
    })

    const calls = (await shop.world.lines()).length
    await shop.deliverOrder()
    expect((await shop.world.lines()).slice(calls)).toEqual([`POST /v3/company/${REALM}/invoice`])
  })

  it('gets another name where an inactive customer has its name', async () => {
    const { shop, orderId } = await openShop('Acme Print')
    const adapter = shop.world.connect()
    const id = await adapter.findOrCreateCustomer('Acme Print', null, 'c1')
    await shop.world.steer({ action: 'set_active', realm_id: REALM, id, active: false })
    await shop.reconnect()
    await shop.deliver()
    expect(await shop.accounting(orderId)).toMatchObject({ status: 'synced' })
    expect(await customerNames(shop)).toEqual(['Acme Print', 'Acme Print (customer)'])
  })

  it.each([
    [true, ['Acme Print']],
    [false, ['Acme Print', 'Acme Prints']],
  ])('renamed here stays where the system refuses a reference, if active: %s', async (active, names) => {
    const { shop, orderId } = await openShop('Acme Print')
    await shop.deliver()
    const id = (await readClient(shop))?.accounting_customer_id ?? ''
    await shop.call('PATCH', `/clients/${shop.clientId}`, { company_name: 'Acme Prints' })
    await shop.world.steer({ action: 'set_active', realm_id: REALM, id, active })
    await shop.connect({ item_id: '99' })
    await shop.deliverEdit(orderId, 'x')
    expect(await shop.accounting(orderId)).toMatchObject({ last_error: expect.stringContaining('2500') })
    await shop.connect()
    await shop.deliverEdit(orderId, 'y')
    expect(await shop.accounting(orderId)).toMatchObject({ status: 'synced' })
    expect(await customerNames(shop)).toEqual(names)
  })

  it('is parked with instructions when every name is taken', async () => {
    const { shop, orderId } = await openShop('Acme Print')
    for (const name of ['Acme Print', 'Acme Print (customer)']) {
      await shop.world.steer({ action: 'take_name', realm_id: REALM, name })
    }
    expect(await shop.deliver()).toBeNull()
    expect(await shop.accounting(orderId)).toMatchObject({
      status: 'parked',
      last_error: expect.stringMatching(/"Acme Print" .* npm run accounting -- link-customer/),
    })
    expect((await shop.world.account()).misused).toEqual([])
  })

  it('fails when it is refused for any other reason', async () => {
    const world = new World()
    const error = await fail(world.connect().findOrCreateCustomer('a:b', null, 'c1'))
    expect(error.codes).toEqual(['2040'])
  })
})

describe('a customer who is linked by hand', () => {
  const link = (shop: Shop, id: string) =>
    ofClient(shop, 'UPDATE clients SET accounting_customer_id = ?3, accounting_customer_linked = 1', id)

  /** A shop with an order, whose client is linked to a customer of another name. */
  async function openLinked() {
    const { shop, orderId } = await openShop('Acme Print')
    const id = await shop.world.connect().findOrCreateCustomer('By hand', null, 'c1')
    await shop.reconnect()
    await link(shop, id)
    return { shop, orderId, id }
  }

  it('is billed from the first delivery on', async () => {
    const { shop, orderId, id } = await openLinked()
    await shop.deliver()
    expect(await shop.accounting(orderId)).toMatchObject({ status: 'synced' })
    expect(await shop.invoices()).toMatchObject([{ CustomerRef: { value: id } }])
    expect(await customerNames(shop)).toEqual(['By hand'])
  })

  it('stays when the system refuses a reference', async () => {
    const { shop, orderId, id } = await openLinked()
    await shop.world.steer({ action: 'set_active', realm_id: REALM, id, active: false })
    await shop.deliver()
    expect(await shop.statusOf(orderId)).toMatch(/^dead: .*2500/)
    expect(await readClient(shop)).toEqual({ accounting_customer_id: id, accounting_customer_linked: 1 })
  })

  it('is dropped when the company connects to another realm', async () => {
    const { shop, orderId } = await openLinked()
    await shop.deliver()
    await shop.connectToOther()
    await shop.deliverEdit(orderId, 'x')
    expect(await readClient(shop)).toMatchObject({ accounting_customer_linked: 0 })
    const { realms } = (await shop.world.look()).state
    expect(Object.values(realms[OTHER_REALM]?.customers ?? {})).toMatchObject([{ DisplayName: 'Acme Print' }])
  })

  it('is dropped when the company connects to another realm before anything was delivered', async () => {
    const shop = await Shop.open()
    await link(shop, '77')
    await shop.deliver()
    await shop.connectToOther()
    const orderId = await shop.deliverOrder()
    expect(await shop.accounting(orderId)).toMatchObject({ status: 'synced', last_error: null })
    expect(await readClient(shop)).toMatchObject({ accounting_customer_linked: 0 })
  })

  it('is kept when the address gets a slash at its end', async () => {
    const { shop, orderId } = await openLinked()
    await shop.deliver()
    const before = await readClient(shop)
    const moved = `UPDATE integrations SET base_url = base_url || '/', updated_at = updated_at + 1 WHERE company_id = ?`
    await sql(moved, shop.company.id)
    await shop.deliverEdit(orderId, 'x')
    expect(await readClient(shop)).toEqual(before)
  })

  it('is kept when it was linked after the company connected to another realm with nothing to deliver', async () => {
    const { shop } = await openShop('Acme Print')
    await shop.deliver()
    await shop.connectToOther()
    expect(await shop.object.check(shop.company.id)).toMatchObject({ ok: true })
    expect(await shop.deliver()).toBeNull()
    await link(shop, '77')
    await shop.deliverOrder()
    expect(await readClient(shop)).toEqual({ accounting_customer_id: '77', accounting_customer_linked: 1 })
  })
})
