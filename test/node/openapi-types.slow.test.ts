import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readSampleSeed } from '../../src/cli/sample-company.ts'
import { checkSeed } from '../../src/cli/seed-file.ts'
import { asObject, isObject, type Json, type JsonObject } from '../../src/site/reference/json.ts'
import { document, resolve } from '../support/conformance.ts'
import { findOperation, type Operation, operations, propertiesOf } from '../tools/fuzz/description.ts'
import { type RunningDev, startDev } from './servers.ts'

const ROOT = join(import.meta.dirname, '../..')
const DOCUMENT = join(ROOT, 'src/site/reference/openapi.json')
const TYPES = join(ROOT, '.contract/openapi.ts')
/** Has the TypeScript whose API the generator needs; the project's own has none. */
const TOOLS = join(ROOT, 'test/contract/node_modules')
const run = promisify(execFile)

beforeAll(async () => {
  await mkdir(join(ROOT, '.contract'), { recursive: true })
  await generate(DOCUMENT, TYPES)
})

describe('the types that openapi-typescript generates from the published description', () => {
  it.each([
    ['the TypeScript of this project', join(ROOT, 'node_modules')],
    ['TypeScript 5', TOOLS],
  ])('type-check a program that calls every operation, with %s', async (_name, modules) => {
    expect(await check(join(ROOT, 'test/contract'), modules)).toBe('')
  })

  it('are unknown only for JSON whose shape the API does not define, or which it ignores', async () => {
    const lines = (await readFile(TYPES, 'utf8')).split('\n').filter((line) => !/^\s*\*|\/\*\*/.test(line))
    expect(lines.filter((line) => /\bany\b/.test(line))).toEqual([])
    const open = lines.filter((line) => /\bunknown\b/.test(line)).map((line) => line.trim())
    expect([...new Set(open)].sort()).toEqual([
      'JsonValue: unknown;',
      '[key: string]: unknown;',
      '[name: string]: unknown;',
      'fetched_at?: unknown;',
      'legacy_thread_id?: unknown;',
      'updated_at?: unknown;',
    ])
  })

  it.each<[string, (document: JsonObject) => void, string]>([
    ['a client of any shape', (document) => Object.assign(schemasOf(document), { Client: {} }), 'program.ts'],
    ['a missing field', (document) => delete fieldsOf(document, 'Payment').method, 'program.ts'],
    ['a total of any type', (document) => setField(document, 'Invoice', 'total', {}), 'program.ts'],
    [
      'a discount type of any string',
      (document) => setField(document, 'OrderChanges', 'discount_amount_type', { type: 'string' }),
      'rejected.ts',
    ],
    ['a missing path', (document) => delete asObject(document.paths)['/orders/{orderId}/files'], 'mail-and-files.ts'],
    ['results of any shape', (document) => setField(document, 'BatchResult', 'body', {}), 'batch-and-changes.ts'],
    ['responses without a schema', (document) => dropContent(document, '/clients', 'get'), 'program.ts'],
  ])('fail the check with %s', async (_name, damage, file) => {
    const folder = await mkdtemp(join(ROOT, '.contract/damaged-'))
    try {
      const damaged = structuredClone(document)
      damage(damaged)
      await writeFile(join(folder, 'openapi.json'), JSON.stringify(damaged))
      await generate(join(folder, 'openapi.json'), join(folder, 'openapi.ts'))
      const config = {
        extends: '../../test/contract/tsconfig.json',
        compilerOptions: { paths: { 'published-description': ['./openapi.ts'] } },
        include: ['../../test/contract'],
        exclude: ['../../test/contract/node_modules'],
      }
      await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(config))
      expect(await check(folder, join(ROOT, 'node_modules'))).toContain(`test/contract/${file}`)
    } finally {
      await rm(folder, { recursive: true })
    }
  })
})

describe('the program', () => {
  let dev: RunningDev
  beforeAll(async () => {
    dev = await startDev()
  })
  afterAll(() => dev?.stop())

  it('calls every operation of the description with all of its fields, against the served sample company', async () => {
    const thread = checkSeed(readSampleSeed(Date.now()), 'The sample company').thread_contexts.find(
      (context) => context.legacy_thread_id,
    )
    const { stdout } = await run(process.execPath, [
      join(ROOT, 'test/contract/main.ts'),
      ...[`${dev.url}/api/v1`, dev.token, thread?.legacy_thread_id ?? '', 'shop@quay.example'],
    ])
    const { requests, results }: { requests: Sent[]; results: string[] } = JSON.parse(stdout)
    const sent = new Map<string, string[]>()
    for (const request of requests) {
      const [method = '', path = ''] = request.line.split(' ')
      const id = findOperation(method, path)?.id ?? request.line
      sent.set(id, [...(sent.get(id) ?? []), ...listSent(request)])
    }
    expect([...sent.keys()].sort()).toEqual(operations.map(({ id }) => id).sort())
    const missing = operations.flatMap((operation) => {
      const { id } = operation
      return listTaken(operation).flatMap((name) => (sent.get(id)?.includes(name) ? [] : [`${id}: ${name}`]))
    })
    expect(missing).toEqual([])

    expect(results).toContainEqual(expect.stringMatching(/^\d+ Quay Rowers Ada active$/))
    expect(results).toContainEqual(expect.stringMatching(/^Regatta shirts, second lot 2026 /))
    expect(results).toContainEqual(expect.stringMatching(/^PC61: ok ok ok ok$/))
    expect(results).toContainEqual(expect.stringMatching(/^200 in 1: Regatta shirts, second lot /))
    expect(results).toContainEqual('412 in none: invalid_request')
    expect(results).toContainEqual('linked: first,second 2 false')
    expect(results).toContainEqual(
      expect.stringMatching(/^http: orders\/1\/\d+\/email\/.*\/crest\.png image\/png 10 200$/),
    )
    expect(results).toContainEqual('download: image/png 12 Not an image')
    expect(results).toContainEqual('1 304')
    expect(results).toContainEqual('email threads: stored,deleted true {"name":"Ada","email":"ada@quay.example"}')
    expect(results).toContainEqual(expect.stringMatching(/^orders \d+ delete$/))
    expect(results).toContainEqual('email_threads shop@quay.example delete')
    expect(results.join('\n')).not.toMatch(/undefined|NaN/)
  })
})

async function generate(document: string, target: string): Promise<void> {
  await run(process.execPath, [join(TOOLS, 'openapi-typescript/bin/cli.js'), document, '-o', target])
}

/** The compiler's errors, one per line. */
async function check(project: string, modules: string): Promise<string> {
  const tsc = join(modules, 'typescript/bin/tsc')
  return run(process.execPath, [tsc, '-p', project, '--pretty', 'false'], { cwd: ROOT }).then(
    ({ stdout }) => stdout,
    (error: { stdout: string }) => error.stdout,
  )
}

/** Parameters of every operation. */
const COMMON = ['x-request-id', 'x-bookmark']

/** What a request may have, as `query page`, `header if-match` and `body.items.title`. */
function listTaken({ queryParameters, headerParameters, body }: Operation): string[] {
  const headers = headerParameters.map(({ name }) => name.toLowerCase()).filter((name) => !COMMON.includes(name))
  return [
    ...queryParameters.map(({ name }) => `query ${name}`.toLowerCase()),
    ...headers.map((name) => `header ${name}`),
    ...listFields(body ?? {}),
  ]
}

/** The fields of a body, at any depth. A field of several forms has no fields of its own here. */
function listFields(schema: JsonObject, place = 'body'): string[] {
  const [form, ...others] = (Array.isArray(schema.anyOf) ? schema.anyOf.map(resolve) : []).filter(
    ({ type }) => type !== 'null',
  )
  if (form && others.length === 0) return listFields(form, place)
  if (schema.items) return listFields(resolve(schema.items), place)
  return propertiesOf(schema).flatMap(([name, field]) => [`${place}.${name}`, ...listFields(field, `${place}.${name}`)])
}

interface Sent {
  line: string
  headers: string[]
  body: Json
}

/** What a request has, named as the description's fields are. */
function listSent({ line, headers, body }: Sent): string[] {
  const query = new URL(line.slice(line.indexOf(' ') + 1), 'http://api').searchParams
  const parameters = [...query.keys()].map((name) => `query ${name}`.toLowerCase())
  return [...parameters, ...headers.map((name) => `header ${name}`), ...listMembers(body)]
}

function listMembers(value: Json, place = 'body'): string[] {
  if (Array.isArray(value)) return value.flatMap((element) => listMembers(element, place))
  if (!isObject(value)) return []
  return Object.entries(value).flatMap(([name, member]) => [
    `${place}.${name}`,
    ...listMembers(member ?? null, `${place}.${name}`),
  ])
}

const schemasOf = (document: JsonObject) => asObject(asObject(document.components).schemas)

const fieldsOf = (document: JsonObject, name: string) => asObject(asObject(schemasOf(document)[name]).properties)

function setField(document: JsonObject, name: string, field: string, schema: JsonObject): void {
  fieldsOf(document, name)[field] = schema
}

function dropContent(document: JsonObject, path: string, method: string): void {
  const operation = asObject(asObject(asObject(document.paths)[path])[method])
  delete asObject(asObject(operation.responses)['200']).content
}
