import type { Context } from 'hono'
import type * as z from 'zod/mini'
import type { AppEnv } from '../../kernel/api/context.ts'
import { type Contract, type Input, isoTime, parseId, type ResponseBody } from '../../kernel/api/contract.ts'
import type { Route } from '../../kernel/api/endpoint.ts'
import { inputReader } from '../../kernel/api/input.ts'
import { openList } from '../../kernel/api/paging.ts'
import { collectAdminEntries } from '../../kernel/db/audit.ts'
import { startObject } from '../../kernel/db/company-object.ts'
import type { CursorPosition } from '../../kernel/db/lists.ts'
import { DIRECTORY, databaseFor, directoryFor } from '../../kernel/db/placement.ts'
import { requireSchema } from '../../kernel/db/refusals.ts'
import { notFound } from '../../kernel/http/errors.ts'
import { BUDGET_MS, isolateMemory, log, nameOf, withDeadline } from '../../kernel/http/isolate.ts'
import { addressPolicy } from '../../kernel/http/outbound.ts'
import { authorise, identify } from './access.ts'
import type { AdminContext } from './context.ts'
import { type ListQuery, listFromOne, type Page } from './queries.ts'

type Handler<C extends Contract> = (input: Input<C>, context: AdminContext) => Promise<ResponseBody<C> | Response>

const HEADERS = { 'Cache-Control': 'private, no-store' }

/** Mounts a contract of the administration API. The handler's value is sent as JSON, a `Response` unchanged. */
export function adminRoute<C extends Contract>(contract: C, handle: Handler<C>): Route {
  const readInput = inputReader(contract)
  const respond = async (c: Context<AppEnv>) => {
    const context = await openContext(contract, c)
    const { env, database } = context
    const lease = isolateMemory.open()
    try {
      const { input } = await readInput(c, lease)
      // Dated at its receipt, a change with a slow body would be older than what callers have read by then.
      context.now = Date.now()
      const result = await withDeadline(handle(input, context), BUDGET_MS.handler)
      return result instanceof Response ? result : Response.json(result, { headers: HEADERS })
    } finally {
      lease.release()
      if (contract.method !== 'GET') {
        // The change is already committed. If collecting fails, the sweep does it.
        await collectAdminEntries(env, database).catch((error: unknown) => {
          log('admin_log_late', { database, error: nameOf(error) }, 'error')
        })
      }
    }
  }
  return { contract, handlers: [respond] }
}

async function openContext(contract: Contract, c: Context<AppEnv>): Promise<AdminContext> {
  const { env } = c
  const { path, operationId } = contract
  const requestId = c.get('requestId')
  c.set('operation', operationId)
  const caller = await identify(c.req.raw, env, requestId)
  c.set('actor', caller.actor)
  const companyId = path.startsWith('/companies/{company_id}') ? parseId(c.req.param('company_id') ?? '') : 0
  if (companyId === null) throw notFound('Company')
  await requireSchema(env.DB)
  const use = c.get('databaseUse')
  const directory = directoryFor(env, { use })
  const database = await authorise(caller, { db: directory, companyId }, contract)
  const mustExist = database !== DIRECTORY && !contract.createsCompany
  const db = companyId === 0 ? directory : databaseFor(env, { companyId, database }, { use, mustExist })
  const waitUntil = (work: Promise<unknown>) => c.executionCtx.waitUntil(work)
  c.set('companyId', companyId)
  return {
    requestId,
    now: c.get('receivedAt'),
    companyId,
    caller,
    db,
    directory,
    database,
    address: c.req.header('cf-connecting-ip') ?? 'unknown',
    env,
    credentialsKey: env.CREDENTIALS_KEY,
    addresses: () => addressPolicy(env),
    isHead: c.req.method === 'HEAD',
    waitUntil,
    deliverAccounting: () => waitUntil(startObject(env.ACCOUNTING_DELIVERY, 'accounting', companyId, true)),
    deliverWebhooks: () => waitUntil(startObject(env.WEBHOOK_DELIVERY, 'webhooks', companyId, true)),
  }
}

type WithTimes<T> = {
  [K in keyof T]: K extends `${string}_at` ? (T[K] extends number ? string : string | null) : T[K]
}

export function withTimes<T extends object>(row: T): WithTimes<T> {
  const toTime = ([name, value]: [string, unknown]) =>
    [name, name.endsWith('_at') && typeof value === 'number' ? isoTime(value) : value] as const
  return Object.fromEntries(Object.entries(row).map(toTime)) as WithTimes<T>
}

type ListContract = Contract & { params?: z.ZodMiniType<object>; query: z.ZodMiniType<ListQuery> }
type ListInput<C extends Contract> = Input<C> & Page
type ElementOf<C extends Contract> = ResponseBody<C> extends { data: (infer Element)[] } ? Element : never

/**
 * Mounts a list like {@link adminRoute}. A cursor of another list is a 400.
 *
 * @param placeOf a row's key in it
 * @param listFrom {@link listFromEach} where the list may be of all databases
 */
export function adminList<C extends ListContract, Row>(
  contract: C,
  read: (context: AdminContext, input: ListInput<C>) => Promise<Row[]>,
  present: (row: Row) => ElementOf<C>,
  placeOf: (row: Row) => CursorPosition,
  listFrom = listFromOne,
): Route {
  return adminRoute(contract, async (input, context) => {
    const { per_page }: ListQuery = input.query
    const { after, following } = openList(contract, { ...input.query, ...input.params }, context)
    const rows = await listFrom(context, { ...input, after: after ?? [], limit: per_page + 1 }, read)
    const shown = rows.slice(0, per_page)
    const last = rows.length > per_page ? shown.at(-1) : undefined
    const next = await following(last ? [...placeOf(last.row), ...last.suffix] : null)
    const pagination = { per_page, ...next }
    return Response.json({ data: shown.map(({ row }) => present(row)), pagination }, { headers: HEADERS })
  })
}
