import { inject } from 'vitest'
import { type AccountingAdapter, createAccountingAdapter } from '../../src/accounting/adapter.ts'
import type { InvoiceSource, InvoiceSourceLine } from '../../src/accounting/invoice-payload.ts'
import type { AccountingTokens } from '../../src/accounting/tokens.ts'
import { CREDENTIALS, type Steering } from '../../src/simulators/accounting-data.ts'
import type { Fault } from '../../src/simulators/kit.ts'
import { look, spoil } from '../../src/simulators/steer.ts'

export interface Books {
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
  realms: Record<string, Books>
}

export const REALM = CREDENTIALS.realm_id
/** The calls that create, change or remove an invoice, as a fault matches them. */
export const INVOICE_POST = '^POST /v3/company/\\d+/invoice'
const EMPTY_BOOKS: Books = { invoices: {}, voided: [], deleted: [], customers: {}, changes: [], misused: [] }

/** A company at the simulator that no other test shares. */
export class World {
  private readonly scopeId = crypto.randomUUID()
  readonly baseUrl = `${inject('accountingUrl')}/t/${this.scopeId}`
  /** Where the token host gives tokens of the same company. */
  readonly tokenUrl = `${inject('tokenHostUrl')}/t/${this.scopeId}/oauth2/v1/tokens/bearer`
  /** What `saveTokens` was given, newest last. */
  readonly saved: AccountingTokens[] = []

  connect(options: Partial<Parameters<typeof createAccountingAdapter>[0]> = {}): AccountingAdapter {
    return createAccountingAdapter({
      settings: this.settings(),
      tokens: this.firstTokens(),
      saveTokens: async (tokens) => {
        this.saved.push(tokens)
      },
      nowMs: () => Date.now(),
      timeoutMs: 5_000,
      ...options,
    })
  }

  settings() {
    const { realm_id: realmId, client_id: clientId, client_secret: clientSecret } = CREDENTIALS
    return { baseUrl: this.baseUrl, tokenUrl: null, realmId, clientId, clientSecret }
  }

  firstTokens(): AccountingTokens {
    return { refreshToken: CREDENTIALS.refresh_token, accessToken: null, accessGoodUntilMs: 0 }
  }

  async spoil(...faults: Fault[]): Promise<void> {
    await spoil(this.baseUrl, ...faults)
  }

  async steer(order: Steering): Promise<void> {
    const response = await fetch(`${this.baseUrl}/__books`, { method: 'POST', body: JSON.stringify(order) })
    const text = await response.text()
    if (!response.ok) throw new Error(`The books answered ${response.status}: ${text}`)
  }

  async look() {
    return look<State>(this.baseUrl)
  }

  async books(): Promise<Books> {
    return (await this.look()).state.realms[REALM] ?? EMPTY_BOOKS
  }

  /** `METHOD path` of every call to the system itself. */
  async lines(): Promise<string[]> {
    const { calls } = await this.look()
    return calls.filter((call) => call.path !== '/__books').map((call) => `${call.method} ${call.path.split('?')[0]}`)
  }
}

export function makeLine(line: Partial<InvoiceSourceLine> = {}): InvoiceSourceLine {
  return {
    title: 'Tee, black',
    description: null,
    quantity: 12,
    unit_price_cents: 950,
    total_cents: 11_400,
    taxable: true,
    ...line,
  }
}

export function makeOrder(order: Partial<InvoiceSource> = {}): InvoiceSource {
  return {
    number: '1001',
    title: 'Team shirts',
    description: 'Print on the front',
    created_date: '2026-01-31',
    deadline: '2026-02-28',
    client: { company_name: 'Acme', email: 'ann@acme.test' },
    tax: { code_id: null },
    discount: null,
    lines: [makeLine()],
    totals: { subtotal: 11_400, discount_total: 0, tax_total: 941, total: 12_341 },
    ...order,
  }
}
