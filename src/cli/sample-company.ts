import { readFileSync } from 'node:fs'
import * as z from 'zod/mini'
import { isoDate } from '../kernel/api/contract.ts'
import { PERMISSIONS } from '../kernel/gate/permissions.ts'
import { listCompanies } from '../operation/admin/companies/contract.ts'
import { putIntegration } from '../operation/admin/integrations/contract.ts'
import { putMember } from '../operation/admin/members/contract.ts'
import { ACTIVE_TOKENS_MAX, createToken, listTokens, revokeToken } from '../operation/admin/tokens/contract.ts'
import type { SeedFile, SeedInput } from '../operation/copies/seed/file.ts'
import { type AdminApi, openAdminApi, type Service } from './admin-api.ts'
import { importSeed } from './import.ts'
import { checkSeed } from './seed-file.ts'

const DAY_MS = 86_400_000
const DATE_TIME = /(?<=")\d{4}-\d\d-\d\dT[\d:]+Z(?=")/g
/** A date, or the date of a date-time. */
const DATE = /(?<=")\d{4}-\d\d-\d\d(?=["T])/g

const TOKEN_NAME = 'sample (dev)'
/** Who opens the settings in development. */
export const OWNER = 'owner@ridgeline.example'
/** The tokens of earlier starts remain valid for this long, at most so many of them. */
const TOKEN_RETENTION_MS = 30 * DAY_MS
const TOKENS_KEPT = 20

/**
 * The company of `sample-company.json`, a seed file, with a year of orders. All its dates are moved by the same number of
 * whole days, so that its latest date-time is within the 24 hours before `now`.
 */
export function readSampleCompany(now: number): SeedFile {
  return checkSeed(readSampleSeed(now), 'The sample company')
}

/** The same, as it is imported. */
export function readSampleSeed(now: number): SeedInput {
  const text = readFileSync(new URL('sample-company.json', import.meta.url), 'utf8')
  const latest = Math.max(...Array.from(text.matchAll(DATE_TIME), ([dateTime]) => Date.parse(dateTime)))
  const movedMs = Math.floor((now - latest) / DAY_MS) * DAY_MS
  const moved = text.replaceAll(DATE, (date) => isoDate(Date.parse(date) + movedMs))
  return JSON.parse(moved)
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
 * Loads the sample company into a service without companies, and creates a token for the first company, whose settings
 * its developer may open. The sample company gets the integrations.
 */
export async function prepareSample(service: Service, integrations: NonNullable<SeedInput['integrations']>) {
  const api = openAdminApi(service)
  const now = Date.now()
  const file = readSampleCompany(now)
  const stored = await findCompany(api)
  if (!stored) await importSeed(api, { ...readSampleSeed(now), integrations }, 'The sample company')
  const { id, name } = stored ?? file.company
  const company_id = id
  const isSample = id === file.company.id && name === file.company.name
  if (stored && isSample) {
    // The simulators have other ports at each start.
    for (const [kind, body] of Object.entries(integrations)) {
      if (body) await api.call(putIntegration, { params: { company_id, kind }, body })
    }
  }
  await api.call(putMember, { params: { company_id, email: OWNER }, body: { role: 'owner' } })
  const token = await replaceTokens(api, company_id)
  return { company: { id, name }, token, examples: await listExamples(service.url, token, isSample ? file : null) }
}

/** The first company that is not suspended, else the first. */
async function findCompany(api: AdminApi) {
  const { data } = await api.call(listCompanies, { query: { per_page: 100 } })
  return data.find(({ suspended }) => !suspended) ?? data[0]
}

/** Creates a token for a start, and revokes the earliest ones of others. */
export async function replaceTokens(api: AdminApi, company_id: number): Promise<string> {
  const earliest = Date.now() - TOKEN_RETENTION_MS
  let others = 0
  const own: { id: number; isOld: boolean }[] = []
  for await (const { id, name, state, created_at } of api.list(listTokens, { params: { company_id } })) {
    if (state !== 'active') continue
    if (name === TOKEN_NAME) own.push({ id, isOld: Date.parse(created_at) < earliest })
    else others++
  }
  const kept = Math.max(0, Math.min(TOKENS_KEPT, ACTIVE_TOKENS_MAX - 1 - others))
  for (const [index, { id, isOld }] of own.entries()) {
    if (isOld || index < own.length - kept) await api.call(revokeToken, { params: { company_id, token_id: id } })
  }
  const body = { name: TOKEN_NAME, permissions: [...PERMISSIONS] }
  const { token } = await api.call(createToken, { params: { company_id }, body })
  return token
}

/**
 * One request for each kind of resource that a company has: to read a client, an order and a mail thread, which belong
 * together in the sample company, and to upload a file.
 */
async function listExamples(url: string, token: string, sample: SeedFile | null): Promise<Example[]> {
  const threads = sample?.thread_contexts.filter((each) => each.selected_order_id !== null && each.legacy_thread_id)
  const thread = threads?.toSorted((a, b) => (b.updated_at ?? 0) - (a.updated_at ?? 0))[0]
  const findFirst = async (list: 'clients' | 'orders') => {
    const response = await fetch(`${url}/api/v1/${list}?per_page=1`, { headers: { authorization: `Bearer ${token}` } })
    const { success, data } = firstPage.safeParse(await response.json())
    return success ? data.data[0]?.id : undefined
  }
  const clientId = thread?.client_id ?? (await findFirst('clients'))
  const orderId = thread?.selected_order_id ?? (await findFirst('orders'))
  const legacyThreadId = thread?.legacy_thread_id
  const body = {
    fileName: 'logo.png',
    contentType: 'image/png',
    size: 48_211,
    legacyThreadId: legacyThreadId ?? 'example',
  }
  const examples = [
    clientId && { resource: 'client', path: `/clients/${clientId}` },
    orderId && { resource: 'order', path: `/orders/${orderId}` },
    legacyThreadId && { resource: 'mail thread', path: `/mail/threads/${legacyThreadId}` },
    orderId && { resource: 'file', path: `/orders/${orderId}/files/presign`, body },
  ]
  return examples.filter((example) => typeof example === 'object' && example !== null)
}

const firstPage = z.object({ data: z.array(z.object({ id: z.number() })) })
