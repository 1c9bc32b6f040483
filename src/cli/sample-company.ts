import { readFileSync } from 'node:fs'
import { and, asc, desc, eq, isNotNull, lt } from 'drizzle-orm'
import { PERMISSIONS } from '../auth/permissions.ts'
import { apiTokens, clients, companies, orders, threadContexts } from '../db/schema.ts'
import { isoDate } from '../http/contract.ts'
import type { SeedFile } from '../seed/file.ts'
import { integrationsFile } from '../seed/integrations-file.ts'
import { planIntegrations } from '../seed/load.ts'
import { CREDENTIALS as ACCOUNTING, startAccounting } from '../simulators/accounting.ts'
import { ENDPOINT_PATH, CREDENTIALS as SUPPLIER_A, startSupplierA } from '../simulators/supplier-a.ts'
import { CREDENTIALS as SUPPLIER_B, startSupplierB } from '../simulators/supplier-b.ts'
import { type Orm, openDatabase, type Place } from './database.ts'
import { loadSeed } from './seed.ts'
import { checkSeed } from './seed-file.ts'
import { readCredentialsKey } from './seed-integrations.ts'
import { createToken } from './tokens.ts'

const DAY_MS = 86_400_000
const DATE_TIME = /(?<=")\d{4}-\d\d-\d\dT[\d:]+Z(?=")/g
/** A date, or the date of a date-time. */
const DATE = /(?<=")\d{4}-\d\d-\d\d(?=["T])/g

const TOKEN_NAME = 'sample (dev)'
/** The tokens of earlier starts remain valid for this long. */
const TOKEN_RETENTION_MS = 30 * DAY_MS

/**
 * The company of `sample-company.json`, a seed file, with a year of orders. All its dates are moved by the same number of
 * whole days, so that its latest date-time is within the 24 hours before `now`.
 */
export function readSampleCompany(now: number): SeedFile {
  const text = readFileSync(new URL('sample-company.json', import.meta.url), 'utf8')
  const latest = Math.max(...Array.from(text.matchAll(DATE_TIME), ([dateTime]) => Date.parse(dateTime)))
  const movedMs = Math.floor((now - latest) / DAY_MS) * DAY_MS
  const moved = text.replaceAll(DATE, (date) => isoDate(Date.parse(date) + movedMs))
  return checkSeed(JSON.parse(moved), 'The sample company')
}

export type Simulators = Awaited<ReturnType<typeof startSimulators>>

/** Starts simulators of the suppliers and the accounting system, with the integrations of a company that uses them. */
export async function startSimulators() {
  const [supplierA, supplierB, accounting] = await Promise.all([startSupplierA(), startSupplierB(), startAccounting()])
  return {
    integrations: integrationsFile.parse({
      supplier_a: { base_url: supplierA.url + ENDPOINT_PATH, credentials: SUPPLIER_A },
      supplier_b: { base_url: supplierB.url, credentials: SUPPLIER_B },
      accounting_sync: { base_url: accounting.url, credentials: ACCOUNTING },
    }),
    close: async () => void (await Promise.all([supplierA.close(), supplierB.close(), accounting.close()])),
  }
}

/** A request to print; with a body it is a POST. */
export interface Example {
  resource: string
  /** Below `/api/v1`. */
  path: string
  body?: object
}

export type Sample = Awaited<ReturnType<typeof prepareSample>>

/**
 * Loads the sample company into a database without companies, and creates a token for the first company. The sample
 * company gets the integrations.
 */
export async function prepareSample(place: Place, integrations: SeedFile['integrations']) {
  await using database = await openDatabase(place)
  const { orm, write, db } = database
  const now = Date.now()
  const file = readSampleCompany(now)
  const key = readCredentialsKey(place)
  const { id, name, suspended } = companies
  const [stored] = await orm.select({ id, name }).from(companies).orderBy(asc(suspended), asc(id)).limit(1)
  if (!stored) await loadSeed(database, file, 'The sample company', key, now)
  const company = stored ?? file.company
  if (company.id === file.company.id && company.name === file.company.name) {
    const context = { companyId: company.id, db, now, credentialsKey: key }
    const [first, ...rest] = await planIntegrations(context, integrations)
    if (first) await db.write([first, ...rest])
  }
  const isOld = and(eq(apiTokens.name, TOKEN_NAME), lt(apiTokens.created_at, now - TOKEN_RETENTION_MS))
  await write([orm.delete(apiTokens).where(isOld)])
  const examples = await listExamples(orm, company.id)
  const newToken = { companyId: company.id, name: TOKEN_NAME, permissions: [...PERMISSIONS], expiresAt: null }
  return { company, examples, token: await createToken(database, newToken, now) }
}

/**
 * One request for each kind of resource that a company has, to read a client, an order and a mail thread, which belong
 * together where a thread is linked, and to upload a file.
 */
async function listExamples(orm: Orm, companyId: number): Promise<Example[]> {
  const { client_id, selected_order_id, legacy_thread_id } = threadContexts
  const [thread] = await orm
    .select({ clientId: client_id, orderId: selected_order_id, threadId: legacy_thread_id })
    .from(threadContexts)
    .where(and(eq(threadContexts.company_id, companyId), isNotNull(selected_order_id), isNotNull(legacy_thread_id)))
    .orderBy(desc(threadContexts.updated_at))
    .limit(1)
  const findFirst = async (table: typeof clients | typeof orders) => {
    const isOwn = and(eq(table.company_id, companyId), eq(table.deleted, false))
    const [first] = await orm.select({ id: table.id }).from(table).where(isOwn).orderBy(asc(table.id)).limit(1)
    return first && String(first.id)
  }
  const clientId = thread?.clientId ?? (await findFirst(clients))
  const orderId = thread?.orderId ?? (await findFirst(orders))
  const file = { fileName: 'logo.png', contentType: 'image/png', size: 48_211 }
  return [
    ...(clientId ? [{ resource: 'client', path: `/clients/${clientId}` }] : []),
    ...(orderId ? [{ resource: 'order', path: `/orders/${orderId}` }] : []),
    ...(thread ? [{ resource: 'mail thread', path: `/mail/threads/${thread.threadId}` }] : []),
    ...(orderId
      ? [
          {
            resource: 'file',
            path: `/orders/${orderId}/files/presign`,
            body: { ...file, legacyThreadId: thread?.threadId ?? 'example' },
          },
        ]
      : []),
  ]
}
