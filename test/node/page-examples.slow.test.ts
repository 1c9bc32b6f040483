import { expect, it } from 'vitest'
import { openAdminApi } from '../../src/cli/admin-api.ts'
import { readDevVars } from '../../src/cli/local-runtime.ts'
import { readSampleSeed } from '../../src/cli/sample-company.ts'
import { importSeed } from '../../src/cli/seed-file.ts'
import { claimState } from '../../src/cli/target.ts'
import { EVENT_TYPES } from '../../src/delivery/webhooks/event-types.ts'
import type { Contract } from '../../src/kernel/api/contract.ts'
import { PERMISSIONS } from '../../src/kernel/gate/permissions.ts'
import { loadPublished } from '../../src/site/reference/build.ts'
import { isObject, type Json, toJson } from '../../src/site/reference/json.ts'
import { addressOf, ORIGIN, sampleRequest } from '../../src/site/reference/page/samples.ts'
import { type Operation, readContracts } from '../../src/site/reference/reference.ts'
import { freshState, resolveAllHosts, runSql, servedState } from './cli-support.ts'
import { serveState } from './dev-server.ts'

/** What reads the result of another example: sent after the writes. */
const READ_AFTER_WRITES = new Set([
  'readClientByExternalId',
  'readEmailThread',
  'listEmailThreads',
  'listFiles',
  'presignDownload',
  'readImport',
])
const PHASES = ['GET', 'POST', 'PUT', 'PATCH', 'after writes', 'DELETE']

/** Text that differs at each run: the recorded one stays while its form does. */
const VOLATILE = [
  /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{3})?Z$/,
  /^\d{4}-\d\d-\d\d$/,
  /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/,
  // A cursor.
  /^[A-Za-z0-9_-]{40,}$/,
  // A webhook endpoint, and its secret.
  /^we_[\da-f]{18}$/,
  /^whsec_[\w+/]{43}=$/,
  // A part of the reference.
  /^https?:\/\/[^/]+\/#\w+$/,
  // A signed URL.
  /^https?:\/\/\S+[?&]X-Amz-Signature=/,
]

function keepVolatile(value: Json | undefined, recorded: Json | undefined, key = ''): Json | undefined {
  if (Array.isArray(value)) {
    const before = Array.isArray(recorded) ? recorded : []
    return value.map((each, index) => keepVolatile(each, before[index]) ?? null)
  }
  if (isObject(value)) {
    const before = isObject(recorded) ? recorded : {}
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, keepVolatile(each, before[key], key)]))
  }
  // The sample company grows with the examples before.
  if (key === 'stored_bytes' || key === 'size_bytes') return recorded ?? value
  const isVolatile = (pattern: RegExp) => [value, recorded].every((each) => pattern.test(String(each)))
  return VOLATILE.some(isVolatile) ? recorded : value
}

function phaseOf({ id, method }: Operation): number {
  return PHASES.indexOf(READ_AFTER_WRITES.has(id) ? 'after writes' : method)
}

it('returns what is documented for every documented example (-u records them)', async () => {
  const dev = await serveState(await freshState())
  const administration = await serveAdministration()
  const responses = {
    ...(await record('resources', `${dev.url}/api/v1`, () => ({ authorization: `Bearer ${dev.token}` }))),
    ...(await record('operation/admin', `${administration.url}/admin/v1`, ({ role }) =>
      role === 'operator' ? { authorization: `Bearer ${administration.token}` } : { origin: administration.url },
    )),
  }
  await expect(toJson(responses)).toMatchFileSnapshot('../../src/site/reference/examples.json')
})

/** Sends the examples whose contract documents no response, and returns the responses in the order of the reference. */
async function record(
  folder: Parameters<typeof loadPublished>[0],
  base: string,
  headersOf: (contract: Pick<Contract, 'role'>) => Record<string, string>,
): Promise<Record<string, Json>> {
  const published = await loadPublished(folder)
  const operations = readContracts(published, '').operations.filter(
    ({ id }) => published.documentation[id]?.example?.response === undefined,
  )
  const seen: Record<string, Json | undefined> = {}
  for (const operation of operations.toSorted((a, b) => phaseOf(a) - phaseOf(b))) {
    const { body, ...request } = sampleRequest(operation)
    const contract = published.endpoints.find(({ operationId }) => operationId === operation.id)
    const response = await fetch(addressOf(request).replace(`${ORIGIN}/api/v1`, base), {
      method: request.method,
      headers: { ...headersOf(contract ?? {}), 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const received: Json = JSON.parse(await response.text())
    expect([operation.id, response.status, received]).toMatchObject([operation.id, 200, {}])
    const [documented] = operation.responses
    seen[operation.id] = keepVolatile(received, documented?.example)
    if (operation.id === 'presignUpload') await upload(received, body)
  }
  return Object.fromEntries(operations.map(({ id }) => [id, seen[id] ?? null]))
}

/** Uploads bytes as a documented response says, of the size in its request. */
async function upload(response: Json, request: Json | undefined): Promise<void> {
  if (!isObject(response) || !isObject(request)) throw new Error('A JSON object was expected here.')
  const { status } = await fetch(String(response.uploadUrl), {
    method: 'PUT',
    headers: { 'content-type': String(response.contentType) },
    body: new Uint8Array(Number(request.size)),
  })
  expect(status).toBe(200)
}

const AT = Date.parse('2026-03-02T09:00:00Z')
const times = { created_at: AT, updated_at: AT }
const ENDPOINT = 'we_3f9c2a7d51e08b46c0'
const event = { company_id: 1, order_id: 44, operation: 'update', attempts: 3, next_attempt_at: AT, ...times }
const [totals, closed] = [
  'The invoice has another total in the accounting system.',
  'The invoice is in a closed period.',
]

/** What the examples of the administration API name, and no request can make. */
const ROWS: Record<string, Record<string, string | number>[]> = {
  members: [
    { company_id: 1, email: 'owner@ridgeline.example', role: 'owner', created_at: AT },
    { company_id: 1, email: 'dev@ridgeline.example', role: 'developer', created_at: AT },
  ],
  api_tokens: [
    {
      ...{ id: 7, company_id: 1, token_hash: '', name: 'Website orders', permissions: JSON.stringify(PERMISSIONS) },
      ...{ created_at: AT, created_by: 'owner@ridgeline.example' },
    },
  ],
  admin_log: [
    {
      ...{ company_id: 1, actor: 'owner@ridgeline.example', action: 'members.put', entity_id: 'dev@ridgeline.example' },
      ...{ address: '203.0.113.7', request_id: '3f1c2a9e-7d54-4a39-9d0e-2b1f6f6f1a10', at: AT },
    },
  ],
  accounting_outbox: [
    { id: 12, ...event, state: 'parked', last_error: totals },
    { id: 13, ...event, state: 'dead', last_error: closed },
    { id: 14, ...event, order_id: 35, state: 'parked', last_error: totals },
  ],
  changes: [
    {
      ...{ company_id: 1, sequence: 4711, type: 'orders', entity_id: '44', operation: 'update', version: 2 },
      at: Date.parse('2026-03-01T12:00:00Z'),
    },
  ],
  webhook_endpoints: [
    {
      ...{ company_id: 1, id: ENDPOINT, url: 'https://hooks.ridgeline.example/crm', secret: '', position: 4711 },
      ...{ event_types: JSON.stringify(EVENT_TYPES), created_at: Date.parse('2026-02-01T09:00:00Z'), updated_at: AT },
    },
  ],
  webhook_deliveries: [
    {
      ...{ company_id: 1, endpoint_id: ENDPOINT, type: 'orders', entity_id: '44', sequence: 4711, attempts: 3 },
      ...{ first_attempt_at: AT, next_attempt_at: AT + 2_107_000, last_error: 'HTTP 500' },
    },
  ],
  moves: [
    {
      ...{ company_id: 1, source: 'DB', destination: 'DB_APAC', state: '{"step":"copy","rows":120}' },
      ...{ started_at: AT, updated_at: AT + 5_000 },
    },
  ],
}

/** Serves the sample company with {@link ROWS}, without deliveries. Every host has a public address. */
async function serveAdministration() {
  await resolveAllHosts()
  const state = await servedState(await freshState())
  const served = await claimState(state)
  if (!('url' in served)) throw new Error('It is not served.')
  const service = { url: served.url, token: readDevVars().ADMIN_TOKEN }
  const supplier_b = { base_url: 'https://api.supplier.example/v2', credentials: { account_number: '1', api_key: 'k' } }
  await importSeed(openAdminApi(service), { ...readSampleSeed(AT), integrations: { supplier_b } }, 'The sample company')
  runSql(state, 'DELETE FROM admin_log')
  // A feed has no gaps.
  runSql(state, 'DELETE FROM changes')
  runSql(state, 'UPDATE companies SET last_change = 4711')
  for (const [table, rows] of Object.entries(ROWS)) {
    for (const row of rows) {
      const names = Object.keys(row)
      runSql(state, `INSERT INTO ${table} (${names}) VALUES (${names.map(() => '?')})`, ...Object.values(row))
    }
  }
  return service
}
