import { env } from 'cloudflare:workers'
import { expect } from 'vitest'
import { encryptCredentials } from '../../../src/kernel/db/credentials.ts'
import { CREDENTIALS } from '../../../src/simulators/accounting-data.ts'
import {
  type ApiResponse,
  freshId,
  type Home,
  mintCompany,
  request,
  send,
  sql,
  type TestCompany,
} from '../../support/app.ts'
import { addItem } from '../../support/rows.ts'
import { countStarts, runAlarm } from '../alarm.ts'
import { INVOICE_POST, OTHER_REALM, REALM, World } from './support.ts'

export interface EventRow {
  id: number
  order_id: number
  operation: string
  state: string
  attempts: number
  stale_attempts: number
  next_attempt_at: number
  request_id: string | null
  request_body: string | null
  last_error: string | null
}

/** A company whose orders go to an account of its own at the simulator, delivered when the test says so. */
export class Shop {
  readonly company: TestCompany
  readonly world = new World()
  clientId = 0
  /** Deliveries that the service would have started. */
  private readonly starts = countStarts('ACCOUNTING_DELIVERY')

  private constructor(company: TestCompany) {
    this.company = company
  }

  static async open(credentials: Record<string, string> = {}, home?: Home): Promise<Shop> {
    const shop = new Shop(await mintCompany(home && { home }))
    await sql('UPDATE companies SET accounting_sync_enabled = 1 WHERE id = ?', shop.company.id)
    await shop.connect(credentials)
    shop.clientId = (
      await shop.call('POST', '/clients', { company_name: 'Acme', email: 'ann@acme.test' })
    ).body.client.id
    return shop
  }

  /** A shop with an order that waits for its delivery. */
  static async openWithOrder(fields: object = {}) {
    const shop = await Shop.open()
    return { shop, id: await shop.makeOrder(fields) }
  }

  /** A shop with an order that has an invoice. */
  static async openDelivered(fields: object = {}) {
    const opened = await Shop.openWithOrder(fields)
    await opened.shop.deliver()
    return opened
  }

  /** Stores the integration as `seed` does: it counts as changed. */
  async connect(credentials: Record<string, string> = {}, enabled = true, settings: object = {}): Promise<void> {
    const keys = env.CREDENTIALS_KEY
    const all = { ...CREDENTIALS, ...credentials }
    await sql(
      `INSERT INTO integrations (company_id, kind, enabled, base_url, settings, credentials, updated_at)
       VALUES (?1, 'accounting_sync', ?2, ?3, ?6, ?4, ?5)
       ON CONFLICT DO UPDATE SET enabled = ?2, base_url = ?3, settings = ?6, credentials = ?4, updated_at = ?5`,
      this.company.id,
      enabled ? 1 : 0,
      this.world.baseUrl,
      await encryptCredentials(keys, this.company.id, 'accounting_sync', all),
      Date.now() + freshId(),
      JSON.stringify(settings),
    )
  }

  /** Connects to the other account of the simulator. */
  connectToOther(): Promise<void> {
    return this.connect({ realm_id: OTHER_REALM, refresh_token: `refresh-${OTHER_REALM}-first` })
  }

  /** Consents and connects again. */
  async reconnect(refresh_token = `refresh-${REALM}-again`): Promise<void> {
    await this.world.steer({ action: 'grant', realm_id: REALM, refresh_token })
    await this.connect({ refresh_token })
  }

  /** A request whose start of a delivery is only counted. */
  call(method: string, path: string, body?: unknown, token = this.company.token): Promise<ApiResponse> {
    return send(request(token, method, path, body), { env: this.starts.bindings })
  }

  get startCalls(): number {
    return this.starts.started.length
  }

  /** @returns the id of a new order with one line of 12 × 9.50 */
  async makeOrder(fields: object = {}): Promise<number> {
    const made = await this.call('POST', '/orders', { title: 'Team shirts', client_id: this.clientId, ...fields })
    await addItem(this.company, made.body.invoice.id, { quantity: 12, unit_price_cents: 950 })
    return made.body.project.id
  }

  /** The `accounting` part of an order. */
  async accounting(orderId: number): Promise<{ status: string; last_error: string | null; synced_at: string | null }> {
    return (await this.call('GET', `/orders/${orderId}?deleted=include`)).body.accounting
  }

  /** `STATUS` or `STATUS: ERROR` of an order. */
  async statusOf(orderId: number): Promise<string> {
    const { status, last_error } = await this.accounting(orderId)
    return last_error === null ? status : `${status}: ${last_error}`
  }

  get object() {
    return env.ACCOUNTING_DELIVERY.get(env.ACCOUNTING_DELIVERY.idFromName(String(this.company.id)))
  }

  /** Runs the object's alarm until it has nothing to do now; returns its next alarm. */
  deliver(): Promise<number | null> {
    return runAlarm(this.object, this.company.id)
  }

  /** Delivers once whatever waits is due. */
  async deliverLater(): Promise<number | null> {
    await this.passTime()
    return this.deliver()
  }

  async deliverOrder(): Promise<number> {
    const id = await this.makeOrder()
    await this.deliver()
    return id
  }

  async deliverEdit(orderId: number, description: string): Promise<number | null> {
    await this.call('PATCH', `/orders/${orderId}`, { description })
    return this.deliver()
  }

  async deliverDeletion(orderId: number): Promise<number | null> {
    await this.call('DELETE', `/orders/${orderId}`)
    return this.deliver()
  }

  /** Starts a delivery and holds the response to its next invoice call until `spoil`. There are `calls` by then. */
  async holdInvoice(calls: number): Promise<{ delivered: Promise<number | null> }> {
    await this.world.spoil({ match: INVOICE_POST, hold: true })
    const delivered = this.deliver()
    await expect.poll(() => this.invoiceCalls()).toHaveLength(calls)
    return { delivered }
  }

  /** Whatever waits is due, and no pause lasts. */
  async passTime(): Promise<void> {
    await sql(`UPDATE accounting_outbox SET next_attempt_at = 0 WHERE company_id = ?`, this.company.id)
    await sql(`UPDATE accounting_connections SET paused_until = 0 WHERE company_id = ?`, this.company.id)
  }

  /** Events that are not done, oldest first. */
  open(): Promise<EventRow[]> {
    return sql(`SELECT * FROM accounting_outbox WHERE company_id = ? AND state <> 'done' ORDER BY id`, this.company.id)
  }

  async connection(): Promise<Record<string, unknown> | undefined> {
    return (await sql('SELECT * FROM accounting_connections WHERE company_id = ?', this.company.id))[0]
  }

  // biome-ignore lint/suspicious/noExplicitAny: tests look into invoices freely
  async invoices(): Promise<any[]> {
    return Object.values((await this.world.account()).invoices)
  }

  /** What was carried out at the other side, in order. */
  async changes(realm = REALM): Promise<string[]> {
    const { realms } = (await this.world.look()).state
    return (realms[realm]?.changes ?? []).map((change) => change.operation)
  }

  /** The calls to the other side that would change an invoice. */
  async invoiceCalls() {
    const { calls } = await this.world.look()
    return calls
      .filter((call) => call.method === 'POST' && /\/invoice\?/.test(call.path))
      .map((call) => ({ requestId: new URL(call.path, 'http://x').searchParams.get('requestid'), body: call.body }))
  }
}
