import { evictDurableObject, runInDurableObject } from 'cloudflare:test'
import { beforeEach, describe, expect, it } from 'vitest'
import { SPOILT } from '../../../src/simulators/accounting-data.ts'
import { freshId, mintToken, sql } from '../../support/app.ts'
import { createRandom, type Random } from '../../support/random.ts'
import { moveTime } from '../../support/time.ts'
import { Shop } from './shop.ts'
import { type Account, INVOICE_POST, REALM } from './support.ts'

// Time stands still but where the test lets it pass: what happens must not hang on the machine's speed. It is an hour
// on, so that no alarm goes off by itself.
beforeEach(() => moveTime(3_600_000))

/** Under the limit of 300 requests a minute each. */
const TOKENS = 6

/** What may go wrong at the other side while orders change at random. */
const FAULTS = [
  { match: INVOICE_POST, apply: true, destroy: true },
  { match: INVOICE_POST, apply: true, cutAfterBytes: 15 },
  { match: INVOICE_POST, apply: true, ...SPOILT.broken },
  { match: '^(GET|POST) /v3', destroy: true },
  { match: '^(GET|POST) /v3', ...SPOILT.unavailable },
  { match: '^(GET|POST) /v3', ...SPOILT.faultInside },
  { match: '^(GET|POST) /v3', ...SPOILT.throttled },
  { match: '^(GET|POST) /v3', ...SPOILT.throttledXml },
  { match: '^(GET|POST) /v3', ...SPOILT.tokenExpired },
  { match: '^POST /oauth2', ...SPOILT.unavailable },
  { match: '^POST /v3/company/\\d+/customer', apply: true, destroy: true },
]

interface Order {
  id: number
  number: string
  deleted: boolean
}

/** A company that changes its orders at random, through the API alone; lines are put where no endpoint takes them. */
class Run {
  readonly shop: Shop
  readonly random: Random
  readonly orders: Order[] = []
  readonly tokens: string[] = []
  readonly clients: number[] = []
  restarts = 0
  private calls = 0

  private constructor(shop: Shop, random: Random) {
    this.shop = shop
    this.random = random
  }

  static async start(seed: number): Promise<Run> {
    const run = new Run(await Shop.open(), createRandom(seed))
    for (let each = 0; each < TOKENS; each++) run.tokens.push(await mintToken(run.shop.company.id))
    for (let each = 0; each < 5; each++) {
      const { body } = await run.call('POST', '/clients', { company_name: `Client ${each}`, email: null })
      run.clients.push(body.client.id)
    }
    return run
  }

  async call(method: string, path: string, body?: object) {
    const response = await this.shop.call(method, path, body, this.tokens[this.calls++ % TOKENS])
    expect(response.status, `${method} ${path} ${JSON.stringify(response.body)}`).toBe(200)
    return response
  }

  async changeSomething(): Promise<void> {
    const { random } = this
    const living = this.orders.filter((order) => !order.deleted)
    if (living.length === 0 || random.chance(0.25)) {
      const sent = { title: `Order ${this.orders.length}`, ...this.fields(true) }
      const { body } = await this.call('POST', '/orders', sent)
      this.orders.push({ id: body.project.id, number: body.invoice.number, deleted: false })
      return this.addLines(body.invoice.id)
    }
    const picked = random.pick(living)
    picked.deleted = random.chance(0.13)
    if (picked.deleted) await this.call('DELETE', `/orders/${picked.id}`)
    else await this.call('PATCH', `/orders/${picked.id}`, this.fields(false))
  }

  private fields(isNew: boolean): object {
    const { random } = this
    return {
      description: random.chance(0.2) ? null : `Text ${random.between(0, 999)}`,
      deadline: `2026-03-${random.between(10, 29)}`,
      tax_id: random.pick([0, this.shop.company.id * 100 + 1]),
      discount_amount: random.between(0, 999) / 100,
      discount_amount_type: random.pick(['percentage', 'fixed']),
      discount_type: random.pick(['before_tax', 'after_tax']),
      ...((isNew || random.chance(0.25)) && { client_id: random.pick(this.clients) }),
    }
  }

  private async addLines(invoiceId: number): Promise<void> {
    const { between } = this.random
    const lines = Array.from({ length: between(0, 3) }, () => [freshId(), between(0, 99) / 4, between(0, 4_999)])
    await sql(
      `INSERT INTO invoice_items (company_id, id, invoice_id, title, quantity, unit_price_cents, search_text)
       SELECT ?1, json_extract(value, '$[0]'), ?2, 'Tee', json_extract(value, '$[1]'), json_extract(value, '$[2]'), 'tee'
       FROM json_each(?3)`,
      this.shop.company.id,
      invoiceId,
      JSON.stringify(lines),
    )
  }

  async disturb(): Promise<void> {
    const { random } = this
    const { world, company } = this.shop
    await world.spoil(...FAULTS.filter(() => random.chance(0.12)))
    if (random.chance(0.1)) await world.steer({ action: 'expire_access' })
    if (random.chance(0.25)) await this.restart()
    if (random.chance(0.03)) await world.steer({ action: 'revoke_grant', realm_id: REALM })
    const linked = await sql<{ id: string }>(
      'SELECT external_id AS id FROM accounting_links WHERE company_id = ? AND external_id IS NOT NULL ORDER BY order_id',
      company.id,
    )
    if (linked.length === 0 || random.chance(0.8)) return
    const fields = { Memo: 'by hand' }
    await world.steer({ action: 'edit_invoice', realm_id: REALM, id: random.pick(linked).id, fields })
  }

  private async restart(): Promise<void> {
    this.restarts += 1
    await runInDurableObject(this.shop.object, () => undefined)
    await evictDurableObject(this.shop.object)
  }

  async reconnectIfStopped(): Promise<void> {
    const connection = await this.shop.connection()
    if (connection?.stopped_for == null) return
    await this.shop.reconnect(`refresh-${REALM}-${this.random.between(0, 1e9)}`)
  }
}

/** Whatever went wrong: every living order has its one invoice, a deleted one at most a voided one, and no more. */
function expectConsistentAccount(account: Account, orders: { number: string; deleted: boolean }[]): void {
  expect(account.misused).toEqual([])
  const applied = account.changes.map((change) => change.requestId)
  expect(new Set(applied).size).toBe(applied.length)

  const invoices = Object.values(account.invoices)
  let removed = 0
  for (const order of orders) {
    const own = invoices.filter((invoice) => invoice.DocNumber === order.number)
    if (order.deleted) {
      expect(own.length).toBeLessThanOrEqual(1)
      for (const invoice of own) expect(account.voided).toContain(invoice.Id)
      removed += own.length
    } else {
      expect(own).toHaveLength(1)
    }
  }
  const count = (operation: string) => account.changes.filter((change) => change.operation === operation).length
  expect(count('create')).toBe(invoices.length)
  expect(count('void')).toBe(removed)
  // The run has met what it is for.
  expect(count('update')).toBeGreaterThan(30)
  expect(count('void')).toBeGreaterThan(5)
}

describe('500 random changes of orders through the service under random failures', () => {
  it.each([1, 2])('end with the accounting system equal to the orders, seed %i', { timeout: 240_000 }, async (seed) => {
    const run = await Run.start(seed)
    const { shop } = run
    for (let turn = 0; turn < 500; turn++) {
      await run.changeSomething()
      if (turn % 3 > 0) continue
      await run.disturb()
      if (run.random.chance(0.5)) await shop.passTime()
      await shop.deliver()
      if (run.random.chance(0.3)) await run.reconnectIfStopped()
    }
    await shop.world.spoil()
    for (let round = 0; round < 30 && (await shop.open()).length > 0; round++) {
      await run.reconnectIfStopped()
      await shop.passTime()
      await shop.deliver()
    }
    expect(await shop.open()).toEqual([])

    const account = await shop.world.account()
    expectConsistentAccount(account, run.orders)
    const customers = Object.values(account.customers)
    expect(new Set(customers.map((each) => each.DisplayName)).size).toBe(customers.length)

    for (const order of run.orders.filter(({ deleted }) => !deleted)) {
      const { body } = await run.call('GET', `/orders/${order.id}`)
      expect(body.accounting).toEqual({ status: 'synced', last_error: null, synced_at: expect.any(String) })
      const invoice = Object.values(account.invoices).find(({ DocNumber }) => DocNumber === order.number)
      expect({ PrivateNote: '', ...invoice }).toMatchObject({
        PrivateNote: body.project.description ?? '',
        DueDate: body.project.deadline,
        TxnDate: body.project.created_date,
        TotalAmt: body.invoice.total,
        TxnTaxDetail: { TotalTax: body.invoice.tax_total },
      })
      expect(account.customers[invoice.CustomerRef.value].DisplayName).toBe(body.client.company_name)
      const lines: { DetailType: string; Amount: number }[] = invoice.Line
      const amounts = lines.filter((line) => line.DetailType === 'SalesItemLineDetail').map(({ Amount }) => Amount)
      const totals = body.invoice_items.map((item: { total: number }) => item.total)
      // An order without lines has one that says so.
      expect(amounts).toEqual(totals.length > 0 ? totals : [0])
    }
    // The run has met what it is for.
    expect(run.restarts).toBeGreaterThan(10)
  })
})
