import { expect, it } from 'vitest'
import { loadPublished } from '../../src/site/reference/build.ts'
import { isObject, type Json, toJson } from '../../src/site/reference/json.ts'
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

/** Text that differs at each run: the recorded one stays while its form does. */
const VOLATILE = [
  /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{3})?Z$/,
  /^\d{4}-\d\d-\d\d$/,
  /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/,
  // A cursor.
  /^[A-Za-z0-9_-]{40,}$/,
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
  if (key === 'stored_bytes') return recorded ?? value
  const isVolatile = (pattern: RegExp) => [value, recorded].every((each) => pattern.test(String(each)))
  return VOLATILE.some(isVolatile) ? recorded : value
}

function phaseOf({ id, method }: Operation): number {
  return PHASES.indexOf(READ_AFTER_WRITES.has(id) ? 'after writes' : method)
}

it('returns what is documented for every documented example (-u records them)', {
  timeout: 120_000,
}, async () => {
  const dev = await serveState(await freshState())
  const authorization = `Bearer ${dev.token}`
  const { operations } = readContracts(await loadPublished('resources'), '')
  const seen: Record<string, Json | undefined> = {}
  for (const operation of operations.toSorted((a, b) => phaseOf(a) - phaseOf(b))) {
    const { body, ...request } = sampleRequest(operation)
    const response = await fetch(addressOf(request).replace(ORIGIN, dev.url), {
      method: request.method,
      headers: { authorization, 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const received: Json = JSON.parse(await response.text())
    expect([operation.id, response.status, received]).toMatchObject([operation.id, 200, {}])
    const [documented] = operation.responses
    seen[operation.id] = keepVolatile(received, documented?.example)
    if (operation.id === 'presignUpload') await upload(received, body)
  }
  const inOrder = Object.fromEntries(operations.map(({ id }) => [id, seen[id]]))
  await expect(toJson(inOrder)).toMatchFileSnapshot('../../src/site/reference/examples.json')
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
