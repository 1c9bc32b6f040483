import { inject } from 'vitest'
import {
  AccountingAdapter,
  type AccountingSettings,
  settingsSchema,
  type Tokens,
} from '../../../src/delivery/accounting/adapter.ts'
import { buildCreateCall, type InvoiceSource } from '../../../src/delivery/accounting/invoice-payload.ts'
import { AccountingError } from '../../../src/delivery/accounting/transport.ts'
import { CREDENTIALS, type Steering } from '../../../src/simulators/accounting-data.ts'
import type { Fault } from '../../../src/simulators/kit.ts'
import { look, spoil } from '../../../src/simulators/steer.ts'
import { LOCAL } from '../../support/addresses.ts'

export interface Account {
  // biome-ignore lint/suspicious/noExplicitAny: tests look into invoices freely
  invoices: Record<string, any>
  voided: string[]
  deleted: string[]
  // biome-ignore lint/suspicious/noExplicitAny: as above
  customers: Record<string, any>
  changes: { operation: string; id: string; requestId: string | null }[]
  misused: string[]
}

interface State {
  grants: Record<string, string | null>
  accessTokens: Record<string, unknown>
  realms: Record<string, Account>
}

export const REALM = CREDENTIALS.realm_id
export const OTHER_REALM = '2002'
/** The calls that create, change or remove an invoice, as a fault matches them. */
export const INVOICE_POST = '^POST /v3/company/\\d+/invoice'
const EMPTY_ACCOUNT: Account = { invoices: {}, voided: [], deleted: [], customers: {}, changes: [], misused: [] }

/** A company at the simulator that no other test shares. */
export class World {
  private readonly scopeId = crypto.randomUUID()
  readonly baseUrl = `${inject('accountingUrl')}/t/${this.scopeId}`
  /** Where the token host gives tokens of the same company. */
  readonly tokenUrl = `${inject('tokenHostUrl')}/t/${this.scopeId}/oauth2/v1/tokens/bearer`
  /** What `saveTokens` was given, newest last. */
  readonly saved: Tokens[] = []

  connect({
    settings = this.settings(),
    tokens = this.firstTokens(),
    saveTokens = async (saved: Tokens) => void this.saved.push(saved),
  } = {}): AccountingAdapter {
    return new AccountingAdapter(settings, { tokens }, saveTokens)
  }

  settings(): AccountingSettings {
    return { base_url: this.baseUrl, ...settingsSchema.parse(CREDENTIALS), addresses: LOCAL }
  }

  firstTokens(): Tokens {
    return { refresh_token: CREDENTIALS.refresh_token, access_token: null, access_good_until: 0 }
  }

  async spoil(...faults: Fault[]): Promise<void> {
    await spoil(this.baseUrl, ...faults)
  }

  async steer(order: Steering): Promise<void> {
    const response = await fetch(`${this.baseUrl}/__books`, { method: 'POST', body: JSON.stringify(order) })
    const text = await response.text()
    if (!response.ok) throw new Error(`The simulator responded with ${response.status}: ${text}`)
  }

  async look() {
    return look<State>(this.baseUrl)
  }

  async account(): Promise<Account> {
    return (await this.look()).state.realms[REALM] ?? EMPTY_ACCOUNT
  }

  /** `METHOD path` of every call to the system itself. */
  async lines(): Promise<string[]> {
    const { calls } = await this.look()
    return calls.filter((call) => call.path !== '/__books').map((call) => `${call.method} ${call.path.split('?')[0]}`)
  }
}

type Line = InvoiceSource['items'][number]

export function makeLine(line: Partial<Line> = {}): Line {
  return { title: 'Tee, black', description: null, quantity: 12, unit_price_cents: 950, taxable: true, ...line }
}

type Fields = InvoiceSource['project'] & InvoiceSource['invoice'] & Pick<InvoiceSource, 'client' | 'tax' | 'items'>

/** By default an order of 12 × 9.50 with 8.25 % of tax: 123.41. */
export function makeOrder(fields: Partial<Fields> = {}): InvoiceSource {
  const { client, tax, items, ...rest } = {
    title: 'Team shirts',
    description: 'Print on the front',
    created_date: '2026-01-31',
    deadline: '2026-02-28',
    deleted: false,
    number: '1001',
    due_date: null,
    tax_exempt: false,
    discount_hundredths: 0,
    discount_amount_type: 'percentage' as const,
    discount_type: 'before_tax' as const,
    client: { id: 1, company_name: 'Acme', email: 'ann@acme.test', accounting_customer_id: null },
    tax: { rate: 8.25, accounting_tax_code_id: null },
    items: [makeLine()],
    ...fields,
  }
  return { project: rest, invoice: rest, client, tax, items }
}

export const ACME = ['Acme', 'ann@acme.test'] as const

export async function fail(work: Promise<unknown>): Promise<AccountingError> {
  const error = await work.then(
    () => null,
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof AccountingError)) throw new Error(`Expected an AccountingError, got ${String(error)}`)
  return error
}

/** An account with a customer, ready for invoices. */
export async function openAccount() {
  const world = new World()
  const adapter = world.connect()
  const customerId = await adapter.findOrCreateCustomer(...ACME, 'customer')
  const references = { customerId, itemId: '1', taxCodeId: null }
  return { world, adapter, references, create: buildCreateCall(makeOrder(), references) }
}
