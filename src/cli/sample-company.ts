import { readFileSync } from 'node:fs'
import * as z from 'zod/mini'
import { type ApiClient, createClient } from '../client/index.ts'
import { isoDate } from '../kernel/api/contract.ts'
import { PERMISSIONS } from '../kernel/gate/permissions.ts'
import { listCompanies } from '../operation/admin/companies/contract.ts'
import { putIntegration } from '../operation/admin/integrations/contract.ts'
import { putMember } from '../operation/admin/people/contract.ts'
import { ACTIVE_TOKENS_MAX, createToken, listTokens, revokeToken } from '../operation/admin/tokens/contract.ts'
import type { SeedFile, SeedInput } from '../operation/copies/seed/file.ts'
import { published as files } from '../resources/files/contract.ts'
import { published as mail } from '../resources/mail/documentation.ts'
import { type AdminApi, openAdminApi, type Service } from './admin-api.ts'
import { checkSeed, importSeed } from './seed-file.ts'

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

/** The sample company. All its dates move by whole days, so that the latest is in the 24 hours before `now`. */
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

export type Sample = Awaited<ReturnType<typeof prepareSample>>

/** Loads the sample company where there is none, and creates a token and an owner of the first company that is not suspended. */
export async function prepareSample(service: Service, integrations: NonNullable<SeedInput['integrations']>) {
  const api = openAdminApi(service)
  const now = Date.now()
  const file = readSampleCompany(now)
  const { data } = await api.call(listCompanies, { query: { per_page: 100 } })
  const stored = data.find(({ suspended }) => !suspended) ?? data[0]
  if (!stored) await importSeed(api, { ...readSampleSeed(now), integrations }, 'The sample company')
  const { id, name } = stored ?? file.company
  const isSample = id === file.company.id && name === file.company.name
  if (stored && isSample) {
    // The simulators have other ports at each start.
    for (const [kind, body] of Object.entries(integrations)) {
      if (body) await api.call(putIntegration, { params: { company_id: id, kind }, body })
    }
  }
  await api.call(putMember, { params: { company_id: id, email: OWNER }, body: { role: 'owner' } })
  const token = await replaceTokens(api, id)
  const client = createClient({ baseUrl: service.url, token })
  if (!stored) await storeExamples(client)
  const examples = await listExamples(client, isSample ? file.thread_contexts : [])
  const curl = `curl -H 'Authorization: Bearer ${token}' '${service.url}/api/v1`
  const commands = examples.map(([what, request]) => `  # ${what}\n  ${curl}/${request}\n`)
  return { company: { id, name }, token, examples: commands.join('\n') }
}

const thread = z.looseObject({ account_email: z.string(), messages: z.array(z.record(z.string(), z.unknown())) })
const upload = z.object({ fileName: z.string(), contentType: z.string(), size: z.number(), legacyThreadId: z.string() })

/** Stores the email thread and the file that the published examples read: a seed file can have neither. */
async function storeExamples(api: ApiClient): Promise<void> {
  const { putEmailThread } = mail.document()
  const { presignUpload } = files.document()
  const file = upload.parse(presignUpload?.example.body)
  await api.mail.putEmailThread(file.legacyThreadId, thread.parse(putEmailThread?.example.body))
  const presigned = await api.files.presign(Number(presignUpload?.example.params?.orderId), file)
  await api.files.upload(presigned, new Uint8Array(file.size))
}

/** Creates a token for a start, and revokes the earliest ones of others. */
export async function replaceTokens(api: AdminApi, company_id: number): Promise<string> {
  const earliest = Date.now() - TOKEN_RETENTION_MS
  const all = await Array.fromAsync(api.list(listTokens, { params: { company_id } }))
  const active = all.filter(({ state }) => state === 'active')
  const own = active.filter(({ name }) => name === TOKEN_NAME)
  const others = active.length - own.length
  const kept = Math.max(0, Math.min(TOKENS_KEPT, ACTIVE_TOKENS_MAX - 1 - others))
  for (const [index, { id, created_at }] of own.entries()) {
    const isKept = index >= own.length - kept && Date.parse(created_at) >= earliest
    if (!isKept) await api.call(revokeToken, { params: { company_id, token_id: id } })
  }
  const body = { name: TOKEN_NAME, permissions: [...PERMISSIONS] }
  return (await api.call(createToken, { params: { company_id }, body })).token
}

/** Requests of a client, an order and a mail thread, which belong together in the sample company, and of a file. */
async function listExamples({ clients, orders }: ApiClient, contexts: SeedFile['thread_contexts']) {
  const linked = contexts.filter((each) => each.selected_order_id !== null && each.legacy_thread_id)
  const [thread] = linked.sort((a, b) => (b.updated_at ?? 0) - (a.updated_at ?? 0))
  // A suspended company lists nothing.
  const firstId = (page: Promise<{ data: { id: number }[] }>) => page.then(({ data }) => data[0]?.id).catch(() => null)
  const clientId = thread?.client_id ?? (await firstId(clients.list({ per_page: 1 })))
  const orderId = thread?.selected_order_id ?? (await firstId(orders.list({ per_page: 1 })))
  const legacyThreadId = thread?.legacy_thread_id
  const file = { fileName: 'logo.png', contentType: 'image/png', size: 48_211 }
  const body = JSON.stringify({ ...file, legacyThreadId: legacyThreadId ?? 'example' })
  return [
    clientId && ['client', `clients/${clientId}'`],
    orderId && ['order', `orders/${orderId}'`],
    legacyThreadId && ['mail thread', `mail/threads/${legacyThreadId}'`],
    orderId && ['file', `orders/${orderId}/files/presign' -H 'Content-Type: application/json' -d '${body}'`],
  ].filter((example) => Array.isArray(example))
}
