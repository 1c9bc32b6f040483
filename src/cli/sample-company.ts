import { readFileSync } from 'node:fs'
import { isoDate } from '../kernel/api/contract.ts'
import { listCompanies, putMember } from '../operation/admin/companies/contract.ts'
import { listIntegrations } from '../operation/admin/integrations/contract.ts'
import { ACTIVE_TOKENS_MAX, createToken, listTokens, revokeToken } from '../operation/admin/tokens/contract.ts'
import type { SeedInput } from '../operation/copies/seed/file.ts'
import { type AdminApi, openAdminApi, type Service } from './admin-api.ts'
import { importSeed } from './seed-file.ts'

const DAY_MS = 86_400_000
const DATE_TIME = /(?<=")\d{4}-\d\d-\d\dT[\d:]+Z(?=")/g
const DATE = /(?<=")\d{4}-\d\d-\d\d(?=["T])/g

const TOKEN_NAME = 'sample (dev)'
/** Who opens the settings in development. */
export const OWNER = 'owner@ridgeline.example'
/** How many tokens of earlier starts remain valid. */
const TOKENS_KEPT = 20

/** The sample company. All its dates move by whole days, so that the latest is in the 24 hours before `now`. */
export function readSampleSeed(now: number): SeedInput {
  const text = readFileSync(new URL('sample-company.json', import.meta.url), 'utf8')
  const latest = Math.max(...Array.from(text.matchAll(DATE_TIME), ([dateTime]) => Date.parse(dateTime)))
  const movedMs = Math.floor((now - latest) / DAY_MS) * DAY_MS
  return JSON.parse(text.replaceAll(DATE, (date) => isoDate(Date.parse(date) + movedMs)))
}

/** Loads what the sample company lacks. Creates a token and an owner of the first company that is not suspended. */
export async function prepareSample(service: Service, integrations: NonNullable<SeedInput['integrations']>) {
  const api = openAdminApi(service)
  const sample = readSampleSeed(Date.now())
  const { data } = await api.call(listCompanies, { query: { per_page: 100 } })
  const stored = data.find(({ suspended }) => !suspended) ?? data[0]
  const { id, name } = stored ?? sample.company
  const isSample = id === sample.company.id && name === sample.company.name
  // Integrations are in the last part: with them it is whole. The simulators have other ports at each start.
  const loaded = stored && (await api.call(listIntegrations, { params: { company_id: id } })).data
  const file = loaded?.length ? { company: { id, name } } : sample
  if (isSample) await importSeed(api, { ...file, integrations }, 'The sample company')
  await api.call(putMember, { params: { company_id: id, email: OWNER }, body: { role: 'owner' } })
  return { company: { id, name }, token: await replaceTokens(api, id) }
}

/** Creates a token for a start, and revokes the earliest ones of others. */
export async function replaceTokens(api: AdminApi, company_id: number): Promise<string> {
  const params = { company_id }
  const active = await Array.fromAsync(api.list(listTokens, { params, query: { state: 'active' } }))
  const own = active.filter(({ name }) => name === TOKEN_NAME)
  const room = ACTIVE_TOKENS_MAX - 1 - (active.length - own.length)
  const ended = own.slice(0, Math.max(0, own.length - Math.min(TOKENS_KEPT, room)))
  for (const { id } of ended) await api.call(revokeToken, { params: { company_id, token_id: id }, isRepeatable: true })
  return (await api.call(createToken, { params, body: { name: TOKEN_NAME } })).token
}
