import { isoTime, isoTimeOrNull } from '../../../kernel/api/contract.ts'
import { invalidInput } from '../../../kernel/api/input.ts'
import { decryptCredentials } from '../../../kernel/db/credentials.ts'
import { ApiError, errorFor, found, invalid, notFound } from '../../../kernel/http/errors.ts'
import { BUDGET_MS, DeadlineError, log, nameOf, withDeadline } from '../../../kernel/http/isolate.ts'
import { companyPrefix } from '../../../resources/files/keys.ts'
import { StorageError } from '../../../resources/files/s3.ts'
import { openStorage } from '../../../resources/files/storage.ts'
import { suppliers } from '../../../resources/products/contract.ts'
import { type Supplier, SupplierError } from '../../../resources/products/suppliers/supplier.ts'
import { findAddressIssues, integrationsFile } from '../../copies/seed/integrations-file.ts'
import type { AdminContext } from '../context.ts'
import { adminList, adminRoute, withTimes } from '../endpoint.ts'
import { listFromEach } from '../queries.ts'
import * as contract from './contract.ts'
import * as queries from './queries.ts'

export const routes = [
  adminRoute(contract.listIntegrations, async (_input, context) => ({ data: await list(context) })),

  adminRoute(contract.putIntegration, async ({ params: { kind }, body }, context) => {
    const before = body.credentials === undefined ? await findStored(context, kind) : null
    const given = { ...body, credentials: body.credentials ?? before?.credentials ?? {} }
    const parsed = integrationsFile.safeParse({ [kind]: given })
    if (!parsed.success) {
      const issues = parsed.error.issues.map((issue) => ({ ...issue, path: issue.path.slice(1) }))
      throw invalidInput('body', issues)
    }
    const issues = findAddressIssues(parsed.data, context.addresses())
    if (issues.length > 0) throw invalid(issues.map((each) => ({ ...each, path: each.path.slice(kind.length + 1) })))
    if (before && originsOf(parsed.data[kind]).some((origin) => !before.origins.includes(origin))) {
      throw invalid([{ path: 'credentials', message: 'is required where the address is of another host' }])
    }
    await queries.putIntegration(context, kind, parsed.data, body.credentials ? undefined : (before?.stored ?? ''))
    if (kind === 'accounting_sync') context.deliverAccounting()
    const saved = (await list(context)).find((each) => each.kind === kind)
    return found(saved, 'Integration')
  }),

  adminRoute(contract.testIntegration, async ({ params: { kind } }, context) => {
    return test(context, found(await findIntegration(context, kind), 'Integration'))
  }),

  ...[contract.listAllEvents, contract.listEvents].map((list) =>
    adminList(list, queries.listEvents, presentEvent, ({ id }) => [id], listFromEach),
  ),

  adminRoute(contract.retryEvent, async ({ params: { event_id } }, context) => {
    const retried = await queries.retryEvents(context, 'id', [event_id])
    if (retried === 0) throw notFound('Undelivered event')
    context.deliverAccounting()
    return { retried }
  }),

  adminRoute(contract.retryEvents, async ({ body }, context) => {
    const retried = await queries.retryEvents(context, 'state', body.states)
    if (retried > 0) context.deliverAccounting()
    return { retried }
  }),

  adminRoute(contract.linkCustomer, async ({ params: { client_id }, body }, context) => {
    const linked = found(await queries.linkCustomer(context, client_id, body.customer_id), 'Client')
    context.deliverAccounting()
    return linked
  }),
]

async function findIntegration(context: AdminContext, kind: contract.Kind) {
  const { rows } = await queries.listIntegrations(context)
  return rows.find((each) => each.kind === kind)
}

/** Finds the credentials and the hosts that receive them; null without any. @throws ApiError 409 if unreadable */
async function findStored(context: AdminContext, kind: contract.Kind) {
  const row = await findIntegration(context, kind)
  if (!row) return null
  const { companyId, credentialsKey } = context
  const credentials = await decryptCredentials(credentialsKey, companyId, kind, row.credentials).catch(() => {
    throw errorFor('credentials_unreadable', { message: 'The stored credentials cannot be read: send them too' })
  })
  const origins = originsOf({ base_url: row.base_url, ...JSON.parse(row.settings) })
  return { credentials, stored: row.credentials, origins }
}

/** The origins of its addresses: permission to change an address must not reveal the stored credentials. */
function originsOf(integration: object | undefined): string[] {
  const { base_url, token_url } = { token_url: undefined, base_url: undefined, ...integration }
  return [base_url, token_url].flatMap((url) => (url === undefined ? [] : [new URL(url).origin]))
}

async function list(context: AdminContext) {
  const { companyId, credentialsKey, now } = context
  const { rows, connection } = await queries.listIntegrations(context)
  return Promise.all(
    rows.map(async ({ kind, enabled, base_url, settings, credentials, updated_at }) => {
      const readable = await decryptCredentials(credentialsKey, companyId, kind, credentials).catch(() => null)
      const ofAccounting = kind === 'accounting_sync' ? connection : null
      const isStopped = ofAccounting?.stopped_for === updated_at
      const pausedUntil = ofAccounting && ofAccounting.paused_until > now ? ofAccounting.paused_until : null
      const state = [
        !enabled && ('disabled' as const),
        readable === null && ('credentials_unreadable' as const),
        isStopped && ('reconnect_needed' as const),
        pausedUntil !== null && ('paused' as const),
      ].find((each) => each !== false)
      return {
        kind: kind as contract.Kind,
        enabled,
        base_url,
        settings: JSON.parse(settings),
        state: state ?? ('connected' as const),
        reason: isStopped || pausedUntil !== null ? (ofAccounting?.reason ?? null) : null,
        paused_until: isoTimeOrNull(pausedUntil),
        updated_at: isoTime(updated_at),
      }
    }),
  )
}

/** Any style works for the test: the supplier responds even if it does not know the style. */
const TEST_STYLE = '5000'
const SUPPLIER_MS = 5_000

/** Makes one call that changes nothing. */
async function test(context: AdminContext, row: queries.IntegrationRow): Promise<{ ok: boolean; message: string }> {
  const { companyId, credentialsKey, env, requestId } = context
  try {
    if (row.kind === 'accounting_sync') {
      // The company's object must use the tokens, since they rotate.
      const object = env.ACCOUNTING_DELIVERY.getByName(String(companyId))
      return await withDeadline((async () => object.check(companyId))(), BUDGET_MS.handler / 2)
    }
    if (row.kind === 'storage') {
      const storage = await openStorage({ ...context, deploymentStorage: () => null }, row)
      await storage?.list(companyPrefix(companyId))
      return { ok: true, message: 'The storage lists the files of the company.' }
    }
    const supplier: Supplier | undefined = Object.values(suppliers).find(({ name }) => name === row.kind)
    const lookup = supplier?.search(TEST_STYLE).lookups[0]
    if (!lookup) return { ok: false, message: 'The supplier is unknown.' }
    const credentials = await decryptCredentials(credentialsKey, companyId, row.kind, row.credentials)
    const addresses = context.addresses()
    await lookup.fetch({ baseUrl: row.base_url, credentials, addresses, timeoutMs: SUPPLIER_MS })
    return { ok: true, message: 'The supplier accepts the credentials.' }
  } catch (error) {
    if (error instanceof DeadlineError) return { ok: false, message: 'There was no response in time.' }
    const isOurs = error instanceof SupplierError || error instanceof StorageError || error instanceof ApiError
    if (!isOurs) log('integration_test_failed', { request_id: requestId, error: nameOf(error) })
    return { ok: false, message: isOurs ? error.message : 'The credentials cannot be read, or there was no response.' }
  }
}

function presentEvent({ state, ...row }: queries.EventRow) {
  return withTimes({ ...row, state: state === 'parked' || state === 'dead' ? state : ('pending' as const) })
}
