import { expect, it } from 'vitest'
import { loadPublished } from '../../src/site/reference/build.ts'
import { isObject, type Json } from '../../src/site/reference/json.ts'
import { addressOf, ORIGIN, sampleRequest } from '../../src/site/reference/page/samples.ts'
import { type Operation, readContracts } from '../../src/site/reference/reference.ts'
import { freshState } from './cli-support.ts'
import { serveState } from './dev-server.ts'

/** What reads the result of another example: sent after the writes. */
const READ_AFTER_WRITES = new Set([
  'readClientByExternalId',
  'readEmailThread',
  'listEmailThreads',
  'listFiles',
  'presignDownload',
])
const PHASES = ['GET', 'POST', 'PUT', 'PATCH', 'after writes', 'DELETE']

/** Text that differs at each run: only its form is compared. */
const VOLATILE: [form: string, pattern: RegExp][] = [
  ['a date-time', /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{3})?Z$/],
  ['a date', /^\d{4}-\d\d-\d\d$/],
  ['a UUID', /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/],
  ['a cursor', /^[A-Za-z0-9_-]{40,}$/],
  ['a part of the reference', /^https?:\/\/[^/]+\/#\w+$/],
  ['a signed URL', /^https?:\/\/\S+[?&]X-Amz-Signature=/],
]

function maskVolatile(value: Json | undefined): unknown {
  if (Array.isArray(value)) return value.map(maskVolatile)
  if (isObject(value)) {
    // The sample company grows with the examples before.
    const mask = (key: string, each: Json | undefined) => (key === 'stored_bytes' ? typeof each : maskVolatile(each))
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, mask(key, each)]))
  }
  if (typeof value !== 'string') return value
  return VOLATILE.find(([, pattern]) => pattern.test(value))?.[0] ?? value
}

function phaseOf({ id, method }: Operation): number {
  return PHASES.indexOf(READ_AFTER_WRITES.has(id) ? 'after writes' : method)
}

it('returns what is documented for every documented example', { timeout: 120_000 }, async () => {
  const dev = await serveState(await freshState())
  const authorization = `Bearer ${dev.token}`
  const { operations } = readContracts(await loadPublished('resources'), '')
  operations.sort((a, b) => phaseOf(a) - phaseOf(b))
  const seen: Record<string, unknown> = {}
  const documented: Record<string, unknown> = {}
  for (const operation of operations) {
    const { body, ...request } = sampleRequest(operation)
    const response = await fetch(addressOf(request).replace(ORIGIN, dev.url), {
      method: request.method,
      headers: { authorization, 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const expected = operation.responses.find(({ status }) => status < 300)
    const received: Json = JSON.parse(await response.text())
    seen[operation.id] = [response.status, maskVolatile(received)]
    documented[operation.id] = [expected?.status, maskVolatile(expected?.example)]
    if (operation.id === 'presignUpload') await upload(received, body)
  }
  expect(seen).toEqual(documented)
})

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
