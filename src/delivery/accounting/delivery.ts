import * as z from 'zod/mini'
import type { Env } from '../../env.ts'
import { CompanyObject, startObject } from '../../kernel/db/company-object.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { decryptCredentials, encryptCredentials } from '../../kernel/db/credentials.ts'
import { forEachDatabase, openCompany } from '../../kernel/db/placement.ts'
import { listDueCompanies } from '../../kernel/db/sweep.ts'
import { log, nameOf } from '../../kernel/http/isolate.ts'
import { addressPolicy } from '../../kernel/http/outbound.ts'
import { AccountingAdapter, type Grant, getDefaultTokenUrl, settingsSchema, tokensSchema } from './adapter.ts'
import { deliverNext } from './deliver-order.ts'
import * as queries from './queries.ts'
import { AccountingError } from './transport.ts'

/** Limits the orders and the time of one run; the next run continues. */
const ORDERS_PER_RUN = 20
const RUN_MS = 60_000
/** This exceeds the stale attempts of one event, but lets other orders come in between. */
const STEPS_PER_ORDER = 8

/** The key of encrypted tokens in the object's storage until the database has them: the previous ones are already void. */
const UNSAVED_TOKENS = 'unsaved_tokens'

/**
 * `granted_with` is the credentials' refresh token: a different one means that the company connected again. `granted_for`
 * has the origins of the API and the token endpoint; older versions stored none.
 */
const storedTokensSchema = z.extend(tokensSchema, { granted_with: z.string(), granted_for: z.optional(z.string()) })
type Consent = Pick<z.infer<typeof storedTokensSchema>, 'granted_with' | 'granted_for'>
const originOf = (url: string) => new URL(url).origin

/**
 * Delivers one company's events to its accounting system. A single object keeps the changes of an invoice in order and
 * refreshes tokens once.
 */
export class AccountingDelivery extends CompanyObject {
  protected override readonly name = 'accounting'
  /** The latest consent: the database may not have its tokens yet. */
  private grant: (Grant & Consent) | null = null

  protected override async run(context: CompanyContext): Promise<number | null> {
    const endMs = Date.now() + RUN_MS
    const { integration, orderIds, at, mayDeliver, ...state } = await findDue(context, ORDERS_PER_RUN)
    const previous = state.connectionRow?.remote_account
    const isUnused = orderIds.length === 0 && !previous && !(mayDeliver && (await queries.hasLinkedCustomer(context)))
    // Also without due events: customers are linked by hand for the account that is connected then.
    if (!integration || isUnused) return at
    const connection = await this.open(context, integration, state.connectionRow)
    // Its events stay due: the sweep repeats the run.
    if (!connection) return null
    // Only a run may switch: the result of a call that is under way belongs to the previous account.
    const { account } = connection
    if (previous !== account) await queries.switchRemoteAccount(context, account, previous)
    else if (orderIds.length === 0) return at

    const delivery = { ...context, ...connection }
    orders: for (const orderId of orderIds) {
      for (let step = 0; step < STEPS_PER_ORDER && Date.now() < endMs; step++) {
        const result = await deliverNext(delivery, orderId)
        if (result === 'halt') break orders
        if (result === 'idle') break
      }
    }
    return (await findDue(context, 1)).at
  }

  /** Checks the credentials by one call that changes nothing. */
  async check(companyId: number): Promise<{ ok: boolean; message: string }> {
    const connection = await this.connectionOf(companyId)
    if (connection === 'none') return { ok: false, message: 'The integration is disabled.' }
    if (!connection) return { ok: false, message: 'The stored credentials cannot be read: save them again.' }
    try {
      await connection.adapter.findInvoices('connection-test')
      return { ok: true, message: 'The accounting system accepts the credentials.' }
    } catch (error) {
      if (!(error instanceof AccountingError)) throw error
      return { ok: false, message: error.message }
    }
  }

  async findLastNumber(companyId: number, ceiling: number): Promise<number | 'none' | 'failed'> {
    try {
      const connection = await this.connectionOf(companyId)
      if (connection === 'none') return 'none'
      // A database that was set back has earlier tokens: those of the memory are stored again.
      if (this.grant?.tokens.access_token) this.grant.isUnsaved = true
      return connection ? await connection.adapter.findLastNumber(ceiling) : 'failed'
    } catch (error) {
      log('accounting_number_unread', { company_id: companyId, error: nameOf(error) }, 'error')
      return 'failed'
    }
  }

  /** `none`: the company has no enabled integration. */
  private async connectionOf(companyId: number) {
    const context = await openCompany(this.env, companyId)
    const { integration, connectionRow } = await queries.loadCompanyState(context)
    return integration ? this.open(context, integration, connectionRow) : 'none'
  }

  /** Null if the credentials or settings of the integration cannot be read, such as with another `CREDENTIALS_KEY`. */
  private async open(context: CompanyContext, integration: queries.IntegrationRow, row: queries.ConnectionRow | null) {
    const { companyId } = context
    const { CREDENTIALS_KEY: keys } = this.env
    const decrypt = (stored: string) => decryptCredentials(keys, companyId, 'accounting_sync', stored)

    const stored = await decrypt(integration.credentials)
      .then((credentials) => settingsSchema.parse({ ...Object(credentials), ...JSON.parse(integration.settings) }))
      .catch(() => null)
    if (!stored) {
      log('outbox', { state: 'company_stopped', cause: 'credentials_unreadable', company_id: companyId })
      return null
    }
    // With or without a slash at its end, it is the same address.
    const base_url = integration.base_url.replace(/(?<!\/)\/+$/, '')
    const settings = { ...stored, base_url, addresses: addressPolicy(this.env) }
    // Tokens that were issued for other hosts are not sent to these, whoever has entered them.
    const { refresh_token, token_url = getDefaultTokenUrl(base_url) } = settings
    const consent = { granted_with: refresh_token, granted_for: [base_url, token_url].map(originOf).join(' ') }
    const isOfConsent = ({ granted_with, granted_for = consent.granted_for }: Consent) =>
      granted_with === refresh_token && granted_for === consent.granted_for
    const { kv } = this.ctx.storage
    const unsaved = kv.get<string>(UNSAVED_TOKENS)
    const encrypted = unsaved ?? row?.tokens
    // Tokens cannot be decrypted without their key: at worst the company must connect again.
    const decrypted = encrypted && (await decrypt(encrypted).catch(() => null))
    const tokens = storedTokensSchema.safeParse(decrypted).data
    const first = { refresh_token, access_token: null, access_good_until: 0 }
    const isUnsaved = unsaved !== undefined
    const issued = tokens && isOfConsent(tokens) ? { tokens, isUnsaved } : { tokens: first }
    const grant = this.grant && isOfConsent(this.grant) ? this.grant : { ...consent, ...issued }
    this.grant = grant
    const adapter = new AccountingAdapter(settings, grant, async (rotated) => {
      // A call under way must not replace the tokens of a later consent.
      if (this.grant !== grant) return
      const tokens = await encryptCredentials(keys, companyId, 'accounting_sync', { ...consent, ...rotated })
      kv.put(UNSAVED_TOKENS, tokens)
      await queries.saveTokens(context, tokens)
      kv.delete(UNSAVED_TOKENS)
    })
    return { version: integration.updated_at, account: `${base_url} ${settings.realm_id}`, adapter, settings }
  }
}

/** Finds at most `limit` orders to deliver now, and the next time to look (null: after the company's next change). */
async function findDue(context: CompanyContext, limit: number) {
  const state = await queries.loadCompanyState(context)
  const { mayDeliver, integration, connectionRow } = state
  const isStopped = !mayDeliver || !integration || connectionRow?.stopped_for === integration.updated_at
  if (isStopped) return { ...state, mayDeliver: false, orderIds: [], at: null }
  const pausedUntil = connectionRow?.paused_until ?? 0
  if (pausedUntil > Date.now()) return { ...state, mayDeliver: false, orderIds: [], at: pausedUntil }
  const { orderIds, nextAttemptAt } = await queries.loadQueue(context, Date.now(), limit)
  return { ...state, orderIds, at: orderIds.length > 0 ? Date.now() : nextAttemptAt }
}

/** Runs with the cron trigger: starts overdue deliveries. */
export async function sweepAccounting(env: Env, nowMs: number): Promise<void> {
  let started = 0
  await forEachDatabase(env, async (db) => {
    const companyIds = await listDueCompanies(db, nowMs)
    await Promise.all(companyIds.map((companyId) => startObject(env.ACCOUNTING_DELIVERY, 'accounting', companyId)))
    started += companyIds.length
  })
  log('sweep', { started })
}
