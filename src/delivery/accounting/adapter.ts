import * as z from 'zod/mini'
import type { AddressPolicy } from '../../kernel/http/outbound.ts'
import { formatEmail, type InvoiceCall, type InvoiceResult, listDisplayNames } from './invoice-payload.ts'
import { AccountingError, orElse, sendRequest } from './transport.ts'

const MINOR_VERSION = '75'
const MAX_NAME_SHOWN = 100
const NEWEST = 1_000

const filled = z.string().check(z.minLength(1))

/** The settings and credentials of an integration. */
export const settingsSchema = z.object({
  token_url: z.optional(z.string()),
  realm_id: filled,
  client_id: filled,
  client_secret: filled,
  refresh_token: filled,
  item_id: z._default(filled, '1'),
  tax_code_id: z._default(z.nullable(filled), null),
  delete_mode: z._default(z.enum(['void', 'delete']), 'void'),
})

/** `base_url` is the address before `/v3/…`, without a slash at its end. */
export type AccountingSettings = z.infer<typeof settingsSchema> & { base_url: string; addresses: AddressPolicy }

/** `access_good_until` is some time before the access token expires. */
export const tokensSchema = z.object({
  refresh_token: z.string(),
  access_token: z.nullable(z.string()),
  access_good_until: z.number(),
})
export type Tokens = z.infer<typeof tokensSchema>

/** The tokens of one consent, shared by every connection made with it: each renewal ends the tokens before. */
export type Grant = { tokens: Tokens; isUnsaved?: boolean; renewal?: Promise<void> }

// JSON.parse changes the last digits of a longer number.
const id = z.pipe(z.union([z.string().check(z.minLength(1), z.maxLength(64)), z.int()]), z.transform(String))
const syncToken = z.pipe(z.union([z.string().check(z.maxLength(64)), z.int()]), z.transform(String))
const text = orElse(z.optional(z.string()), undefined)
const amount = orElse(z._default(z.nullable(z.number()), null), null)
const entity = z.object({ Id: id })
const invoice = z.looseObject({
  Id: id,
  SyncToken: syncToken,
  DocNumber: text,
  TxnDate: text,
  CustomerRef: orElse(z.optional(z.object({ value: id })), undefined),
  TotalAmt: amount,
  TxnTaxDetail: orElse(z.optional(z.object({ TotalTax: amount })), undefined),
})
const invoiceResponse = z.object({ Invoice: invoice })
const numbered = z.object({ DocNumber: text })

type Invoice = z.infer<typeof invoice>

/** One company's accounting system. Methods throw {@link AccountingError}, or an error of `saveTokens`. */
export class AccountingAdapter {
  readonly #companyUrl: string
  readonly #addresses: AddressPolicy
  readonly #session: ReturnType<typeof createOAuthSession>

  /** @param saveTokens stores rotated tokens durably; awaited before the new access token is used */
  constructor(settings: AccountingSettings, grant: Grant, saveTokens: (tokens: Tokens) => Promise<void>) {
    const { base_url: baseUrl, token_url: tokenUrl = getDefaultTokenUrl(baseUrl) } = settings
    this.#companyUrl = `${baseUrl}/v3/company/${encodeURIComponent(settings.realm_id)}`
    this.#addresses = settings.addresses
    this.#session = createOAuthSession(tokenUrl, settings, grant, saveTokens)
  }

  /**
   * Makes one change, which is applied once however often it is sent. The request id has 1–50 characters and belongs to
   * this body only.
   */
  async sendInvoice(change: InvoiceCall, requestId: string): Promise<InvoiceResult> {
    const query = { requestid: requestId }
    if (change.operation === 'delete') {
      await this.#call(z.object({ Invoice: entity }), 'invoice', { operation: 'delete', ...query }, change.body)
      return { ...change.body, total: null, tax: null }
    }
    const operation = change.operation === 'void' ? { operation: 'void' } : {}
    const { Invoice } = await this.#call(invoiceResponse, 'invoice', { ...operation, ...query }, change.body)
    const { Id, SyncToken, TotalAmt, TxnTaxDetail } = Invoice
    return { Id, SyncToken, total: TotalAmt, tax: TxnTaxDetail?.TotalTax ?? null }
  }

  async readInvoice(invoiceId: string): Promise<Invoice> {
    return (await this.#call(invoiceResponse, `invoice/${encodeURIComponent(invoiceId)}`, {})).Invoice
  }

  /** Finds all invoices with a number: the system may allow several. */
  findInvoices(docNumber: string): Promise<Invoice[]> {
    return this.#query('Invoice', invoice, `select * from Invoice where DocNumber = ${quote(docNumber)}`)
  }

  /** Finds the highest number up to `ceiling` among the {@link NEWEST} newest invoices; 0 without any. */
  async findLastNumber(ceiling: number): Promise<number> {
    const query = `select DocNumber from Invoice orderby MetaData.CreateTime desc maxresults ${NEWEST}`
    const found = await this.#query('Invoice', numbered, query)
    const numbers = found.map(({ DocNumber = '' }) => (/^\d{1,15}$/.test(DocNumber) ? Number(DocNumber) : 0))
    return Math.max(0, ...numbers.filter((number) => number <= ceiling))
  }

  /**
   * Finds or creates the customer of a name of `toDisplayName`, or of the first of its `listDisplayNames` that belongs to
   * nothing else, and returns its id. `requestId` has 1–47 characters, new ones for every call. With null none is created:
   * the id is empty if none is found.
   */
  async findOrCreateCustomer(displayName: string, email: string | null, requestId: string | null): Promise<string> {
    for (const [index, name] of listDisplayNames(displayName).entries()) {
      const create = () => requestId && this.#createCustomer(name, email, `${requestId}-${index}`)
      const customerId = (await this.findCustomer(name)) ?? (await create())
      if (customerId) return customerId
    }
    if (requestId === null) return ''
    const message =
      `Every name tried for the customer "${displayName.slice(0, MAX_NAME_SHOWN)}" belongs to a vendor, an employee or ` +
      'an inactive customer: link the client to a customer with npm run accounting -- link-customer.'
    throw new AccountingError('names_taken', message)
  }

  async findCustomer(value: string, field: 'DisplayName' | 'Id' = 'DisplayName'): Promise<string | undefined> {
    return (await this.#query('Customer', entity, `select * from Customer where ${field} = ${quote(value)}`))[0]?.Id
  }

  async #query<T>(name: string, element: z.ZodMiniType<T>, query: string): Promise<T[]> {
    const found = z.object({ [name]: z._default(z.array(element), []) })
    const { QueryResponse } = await this.#call(z.object({ QueryResponse: found }), 'query', { query })
    return QueryResponse[name] ?? []
  }

  /** Creates a customer; undefined if the name belongs to something other than an active customer. */
  async #createCustomer(name: string, email: string | null, requestid: string): Promise<string | undefined> {
    const address = formatEmail(email)
    const body = { DisplayName: name, ...(address && { PrimaryEmailAddr: { Address: address } }) }
    try {
      return (await this.#call(z.object({ Customer: entity }), 'customer', { requestid }, body)).Customer.Id
    } catch (error) {
      if (!(error instanceof AccountingError) || !error.codes.includes('6240')) throw error
      return this.findCustomer(name)
    }
  }

  /** Sends a POST with a body, or a GET without. A refused access token is renewed once within the call. */
  async #call<T>(schema: z.ZodMiniType<T>, path: string, query: Record<string, string>, body?: object): Promise<T> {
    const search = Object.entries({ ...query, minorversion: MINOR_VERSION })
      .map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
      .join('&')
    const send = (accessToken: string) =>
      sendRequest(schema, {
        endpoint: 'api',
        url: `${this.#companyUrl}/${path}?${search}`,
        addresses: this.#addresses,
        authorization: `Bearer ${accessToken}`,
        ...(body && { body: JSON.stringify(body), contentType: 'application/json' }),
        secrets: this.#session.listSecrets(),
      })
    const accessToken = await this.#session.getAccessToken()
    try {
      return await send(accessToken)
    } catch (error) {
      if (!(error instanceof AccountingError) || error.failure !== 'token') throw error
    }
    return send(await this.#session.getAccessToken(accessToken))
  }
}

function quote(value: string): string {
  return `'${value.replace(/[\\']/g, '\\$&')}'`
}

/**
 * The token endpoint unless the integration names another. The two API hosts, production and sandbox, share a
 * documented one. `baseUrl` has no trailing slash.
 */
export function getDefaultTokenUrl(baseUrl: string): string {
  const isKnown = /^(sandbox-)?quickbooks\.api\.intuit\.com$/.test(new URL(baseUrl).hostname)
  return `${isKnown ? 'https://oauth.platform.intuit.com' : baseUrl}/oauth2/v1/tokens/bearer`
}

const MAX_MARGIN_MS = 60_000
const DEFAULT_LIFETIME_S = 3_600

const token = z.string().check(z.minLength(1), z.maxLength(8_192))
const lifetime = z.pipe(z.transform(Number), z.number().check(z.positive(), z.maximum(86_400)))
const tokenResponse = z.object({
  // Every call would fail with a control character in its header.
  access_token: token.check(z.trim(), z.regex(/^\P{Cc}+$/u)),
  refresh_token: z.optional(token),
  expires_in: orElse(lifetime, DEFAULT_LIFETIME_S),
})

/**
 * Manages the access token of one company (RFC 6749, section 6). Concurrent calls share one refresh. The refresh token
 * rotates: the new pair is stored first. If that fails, it stays in memory and is stored at the next call, without
 * another refresh.
 */
function createOAuthSession(
  url: string,
  { client_id, client_secret, addresses }: AccountingSettings,
  grant: Grant,
  saveTokens: (tokens: Tokens) => Promise<void>,
) {
  const basic = new TextEncoder().encode(`${client_id}:${client_secret}`).toBase64()

  const listSecrets = () => [client_secret, basic, grant.tokens.refresh_token, grant.tokens.access_token ?? '']

  async function renew(): Promise<void> {
    if (!grant.isUnsaved) {
      const { tokens } = grant
      const start = Date.now()
      const issued = await sendRequest(tokenResponse, {
        endpoint: 'token',
        isUntried: tokens.access_token === null,
        url,
        addresses,
        authorization: `Basic ${basic}`,
        contentType: 'application/x-www-form-urlencoded',
        body: new URLSearchParams({ grant_type: 'refresh_token', refresh_token: tokens.refresh_token }).toString(),
        secrets: listSecrets(),
      })
      const { access_token, refresh_token = tokens.refresh_token, expires_in } = issued
      const lifetimeMs = expires_in * 1_000
      const access_good_until = start + lifetimeMs - Math.min(MAX_MARGIN_MS, lifetimeMs / 10)
      Object.assign(grant, { tokens: { refresh_token, access_token, access_good_until }, isUnsaved: true })
    }
    await saveTokens(grant.tokens)
    grant.isUnsaved = false
  }

  async function getAccessToken(refused?: string): Promise<string> {
    const { access_token: accessToken, access_good_until: goodUntil } = grant.tokens
    const isGood = !grant.isUnsaved && accessToken !== null && accessToken !== refused && Date.now() < goodUntil
    if (!isGood) {
      grant.renewal ??= renew().finally(() => delete grant.renewal)
      await grant.renewal
    }
    return grant.tokens.access_token ?? ''
  }

  return { getAccessToken, listSecrets }
}
