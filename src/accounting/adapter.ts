import * as z from 'zod/mini'
import { classify } from './decisions.ts'
import type { InvoiceCall, InvoiceKey } from './invoice-payload.ts'
import { type AccountingTokens, createTokenKeeper, getDefaultTokenUrl } from './tokens.ts'
import { AccountingError, makeNoAnswer, sendRequest, TIMEOUT_MS } from './transport.ts'
import { formatEmail, listDisplayNames } from './wire-text.ts'

const MINOR_VERSION = '75'
const LONGEST_REQUEST_ID = 50
const LONGEST_NAME_SHOWN = 100
const NAMES_TAKEN =
  'Every name tried for the customer "NAME" belongs to a vendor, an employee or an inactive customer: link the client to a customer with npm run accounting -- link-customer.'

export interface AccountingSettings {
  /** What stands before `/v3/…`. */
  baseUrl: string
  /** Null: the one that belongs to `baseUrl`. */
  tokenUrl: string | null
  realmId: string
  clientId: string
  clientSecret: string
}

export interface AdapterOptions {
  settings: AccountingSettings
  tokens: AccountingTokens
  /** Stores rotated tokens for good. Awaited before the new access token is used. */
  saveTokens: (tokens: AccountingTokens) => Promise<void>
  nowMs: () => number
  timeoutMs?: number
}

/** An invoice as the accounting system has it; what is not listed is there too. */
export type Invoice = z.infer<typeof invoiceSchema>

export interface Customer {
  /** As the accounting system takes it: see `toDisplayName`. */
  displayName: string
  email: string | null
}

/** What the accounting system holds after a change. */
export interface SentInvoice extends InvoiceKey {
  /** Total and tax as it computed them, in the company's currency; null where they are missing. */
  total: number | null
  tax: number | null
}

/** Talks to the accounting system for one company. Every method throws {@link AccountingError}. */
export interface AccountingAdapter {
  /**
   * Carries out one change. Repeated with the same id and body it is applied once.
   *
   * @param requestId 1–50 characters, never used for another body
   * @returns the invoice's id, its new `SyncToken` and its amounts
   */
  sendInvoice: (call: InvoiceCall, requestId: string) => Promise<SentInvoice>
  readInvoice: (id: string) => Promise<Invoice>
  /** All invoices of a number: the system may allow several. */
  findInvoices: (docNumber: string) => Promise<Invoice[]>
  /**
   * Gives the id of the customer of that name, made when there is none. Where the name belongs to something else, a
   * vendor say, the next of `NAME (customer)`, `NAME (customer 2)` … is used.
   *
   * @param requestId 1–47 characters, a new one for every call
   */
  findOrCreateCustomer: (customer: Customer, requestId: string) => Promise<string>
}

const id = z.pipe(z.union([z.string().check(z.minLength(1), z.maxLength(64)), z.number()]), z.transform(String))
const syncToken = z.pipe(z.union([z.string().check(z.maxLength(64)), z.number()]), z.transform(String))
const text = z.catch(z.optional(z.string()), undefined)
const amount = z.catch(z._default(z.nullable(z.number()), null), null)

const invoiceSchema = z.looseObject({
  Id: id,
  SyncToken: syncToken,
  DocNumber: text,
  TxnDate: text,
  CustomerRef: z.catch(z.optional(z.object({ value: id })), undefined),
  TotalAmt: amount,
  TxnTaxDetail: z.catch(z.optional(z.object({ TotalTax: amount })), undefined),
})
const invoiceAnswer = z.object({ Invoice: invoiceSchema })
const deletedAnswer = z.object({ Invoice: z.object({ Id: id }) })
const customerAnswer = z.object({ Customer: z.object({ Id: id }) })
const invoicesAnswer = z.object({ QueryResponse: z.object({ Invoice: z._default(z.array(invoiceSchema), []) }) })
const customersAnswer = z.object({
  QueryResponse: z.object({ Customer: z._default(z.array(z.object({ Id: id })), []) }),
})

/** Makes the client of one company. Keep it for as long as its tokens are: it refreshes them single flight. */
export function createAccountingAdapter(options: AdapterOptions): AccountingAdapter {
  const { settings, nowMs, timeoutMs = TIMEOUT_MS } = options
  const baseUrl = settings.baseUrl.replace(/(?<!\/)\/+$/, '')
  const companyUrl = `${baseUrl}/v3/company/${encodeURIComponent(settings.realmId)}`
  const tokenSettings = {
    tokenUrl: settings.tokenUrl ?? getDefaultTokenUrl(baseUrl),
    clientId: settings.clientId,
    clientSecret: settings.clientSecret,
  }
  const keeper = createTokenKeeper(tokenSettings, options.tokens, options.saveTokens, nowMs, timeoutMs)

  async function call<T>(
    answer: z.ZodMiniType<T>,
    path: string,
    query: Record<string, string>,
    body?: object,
  ): Promise<T> {
    const search = Object.entries({ ...query, minorversion: MINOR_VERSION })
      .map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
      .join('&')
    const url = `${companyUrl}/${path}?${search}`
    const json = await sendAuthorized(url, body && JSON.stringify(body))
    const parsed = answer.safeParse(json)
    if (!parsed.success) throw makeNoAnswer('malformed')
    return parsed.data
  }

  /** A refused token is renewed within the call, once. */
  async function sendAuthorized(url: string, body: string | undefined): Promise<unknown> {
    const accessToken = await keeper.getAccessToken()
    try {
      return await sendWith(accessToken, url, body)
    } catch (error) {
      if (!(error instanceof AccountingError) || classify(error.failure) !== 'token') throw error
    }
    return sendWith(await keeper.getAccessToken(accessToken), url, body)
  }

  function sendWith(accessToken: string, url: string, body: string | undefined): Promise<unknown> {
    return sendRequest({
      endpoint: 'api',
      method: body === undefined ? 'GET' : 'POST',
      url,
      headers: {
        authorization: `Bearer ${accessToken}`,
        accept: 'application/json',
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body }),
      timeoutMs,
      secrets: keeper.listSecrets(),
    })
  }

  async function findCustomer(displayName: string): Promise<string | undefined> {
    const query = `select * from Customer where DisplayName = ${quote(displayName)}`
    const answer = await call(customersAnswer, 'query', { query })
    return answer.QueryResponse.Customer[0]?.Id
  }

  /** Undefined when the name belongs to something that is no active customer. */
  async function createCustomer(name: string, email: string | null, requestid: string): Promise<string | undefined> {
    const address = formatEmail(email)
    const body = { DisplayName: name, ...(address ? { PrimaryEmailAddr: { Address: address } } : {}) }
    try {
      return (await call(customerAnswer, 'customer', { requestid }, body)).Customer.Id
    } catch (error) {
      if (!(error instanceof AccountingError) || !isNameTaken(error)) throw error
      return findCustomer(name)
    }
  }

  return {
    async sendInvoice(change, requestId) {
      const query = { requestid: checkRequestId(requestId) }
      if (change.operation === 'delete') {
        const { Invoice } = await call(deletedAnswer, 'invoice', { operation: 'delete', ...query }, change.body)
        return { Id: Invoice.Id, SyncToken: change.body.SyncToken, total: null, tax: null }
      }
      const operation = change.operation === 'void' ? { operation: 'void' } : {}
      const { Invoice } = await call(invoiceAnswer, 'invoice', { ...operation, ...query }, change.body)
      const { Id, SyncToken, TotalAmt, TxnTaxDetail } = Invoice
      return { Id, SyncToken, total: TotalAmt, tax: TxnTaxDetail?.TotalTax ?? null }
    },

    async readInvoice(invoiceId) {
      return (await call(invoiceAnswer, `invoice/${encodeURIComponent(invoiceId)}`, {})).Invoice
    },

    async findInvoices(docNumber) {
      const query = `select * from Invoice where DocNumber = ${quote(docNumber)}`
      return (await call(invoicesAnswer, 'query', { query })).QueryResponse.Invoice
    },

    async findOrCreateCustomer({ displayName, email }, requestId) {
      for (const [index, name] of listDisplayNames(displayName).entries()) {
        const requestid = checkRequestId(index === 0 ? requestId : `${requestId}-${index}`)
        const customerId = (await findCustomer(name)) ?? (await createCustomer(name, email, requestid))
        if (customerId) return customerId
      }
      const name = displayName.slice(0, LONGEST_NAME_SHOWN)
      throw new AccountingError(
        { kind: 'names_taken' },
        NAMES_TAKEN.replace('NAME', () => name),
      )
    },
  }
}

function isNameTaken({ failure }: AccountingError): boolean {
  return failure.kind === 'answered' && failure.codes.includes('6240')
}

function checkRequestId(requestId: string): string {
  if (requestId.length < 1 || requestId.length > LONGEST_REQUEST_ID) {
    throw new RangeError(`A request id has 1 to ${LONGEST_REQUEST_ID} characters`)
  }
  return requestId
}

/** A literal of the query language: quotes and backslashes are escaped by a backslash. */
function quote(value: string): string {
  return `'${value.replace(/[\\']/g, '\\$&')}'`
}
