import { createHmac } from 'node:crypto'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startCrmApi } from '../../src/simulators/crm-api.ts'
import type { Simulator } from '../../src/simulators/kit.ts'
import { bundleModule, installClient, PACKAGE, run, runNpm, writeFiles } from './client-package.ts'

const ROOT = join(import.meta.dirname, '../..')
const TOKEN = 'ab'.repeat(32)
const KEY = Buffer.alloc(24, 7)
const SECRET = `whsec_${KEY.toString('base64')}`

/** Calls the API at the address of its first argument, and verifies the delivery of its second. */
const PROGRAM = `
import { ApiError, createClient } from '${PACKAGE}'
import { verifyWebhook, type WebhookEvent } from '${PACKAGE}/webhooks'

const [, , baseUrl = '', delivery = '{}'] = process.argv
const api = createClient({ baseUrl, token: '${TOKEN}' })
const created = await api.clients.create({ company_name: 'Oak' })
const names: string[] = []
for await (const client of api.clients.all()) names.push(client.company_name)
const failure: unknown = await api.clients.get(99).catch((error: unknown) => error)
const status: number | null = failure instanceof ApiError ? failure.status : null
const { body, headers }: { body: string; headers: Record<string, string> } = JSON.parse(delivery)
const event: WebhookEvent = verifyWebhook(body, headers, '${SECRET}')
console.log(JSON.stringify({ id: created.id, names, status, event: [event.id, event.type, event.data.id] }))
`
/** What the examples of the README use without declaring it. */
const SURROUNDINGS = `
declare const api: import('${PACKAGE}').ApiClient
declare const client: import('${PACKAGE}').Client
declare const messages: import('${PACKAGE}').Message[]
declare const token: string, secret: string, subject: string, email: string, legacyThreadId: string
declare const mailbox: { load(messageId?: string, attachmentId?: string, signal?: AbortSignal): Promise<Blob> }
declare function save(...values: unknown[]): Promise<void>
declare function show(...values: unknown[]): void
declare function loadState(): Promise<import('${PACKAGE}').PullState | undefined>
declare const state: import('${PACKAGE}').PullState
declare function copyAgain(): Promise<void>
declare function mergeAndRetry(): Promise<void>
`
const RESULT = { id: 1, names: ['Oak'], status: 404, event: ['msg_1', 'client.created', 7] }

let folder: string
let project: string
let packed: string[]
let simulator: Simulator

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'crm-client-'))
  project = join(folder, 'project')
  simulator = await startCrmApi()
  packed = await installClient(project)
})

afterAll(async () => {
  await simulator?.close()
  await rm(folder, { recursive: true, force: true })
})

describe('the package', () => {
  it('is packed in a clean clone, with scripts, types, README and licence alone', () => {
    const scripts = ['index.js', 'index.d.ts', 'webhooks.js', 'webhooks.d.ts', 'LICENSE'].map((name) => `dist/${name}`)
    const needed = ['package.json', 'README.md', ...scripts].map((name) => `package/${name}`)
    expect(packed).toEqual(expect.arrayContaining(needed))
    const allowed = /^package\/(dist\/[\w-]+\.(js|d\.ts)|dist\/LICENSE|package\.json|README\.md)$/
    expect(packed.filter((path) => !allowed.test(path))).toEqual([])
  })

  it('is built by npm run build:client', async () => {
    await runNpm(ROOT, 'run', 'build:client')
    const built = (await readdir(join(ROOT, 'src/client/dist'))).map((name) => `package/dist/${name}`)
    expect(built.sort()).toEqual(packed.filter((path) => path.startsWith('package/dist/')).sort())
  })

  it('imports nothing but itself, apart from the verification of webhooks', async () => {
    const dist = join(project, 'node_modules', PACKAGE, 'dist')
    for (const name of (await readdir(dist)).filter((name) => name !== 'webhooks.js')) {
      const text = await readFile(join(dist, name), 'utf8')
      const imports = Array.from(
        text.matchAll(/^(?:import|export)\s[^'"]*?from ['"]([^'"]+)['"]/gm),
        ([, from]) => from,
      )
      expect(imports.filter((from) => !/^\.\/[\w-]+\.js$/.test(from ?? ''))).toEqual([])
    }
  })
})

const MODULES = { 'this TypeScript': 'node_modules', 'TypeScript 5': 'test/contract/node_modules' }
const LIBRARIES = {
  'the types of Node': { lib: ['es2022'], types: ['node'], typeRoots: [join(ROOT, 'node_modules/@types')] },
  'those of a browser': { lib: ['es2022', 'dom', 'dom.iterable', 'dom.asynciterable'], types: [] },
}

describe('a strict NodeNext project', () => {
  const cases = Object.entries(MODULES).flatMap(([compiler, modules]) =>
    Object.entries(LIBRARIES).map(([library, options]) => ({ compiler, library, modules, options })),
  )

  it.each(cases)('compiles the examples of the README, with $compiler and $library', async ({ modules, options }) => {
    const readme = await readFile(join(project, 'node_modules', PACKAGE, 'README.md'), 'utf8')
    const examples = Array.from(readme.matchAll(/```ts\n(.*?)```/gs), ([, code = '']) => code)
    expect(examples.length).toBeGreaterThan(3)
    const source = join(project, 'examples')
    await rm(source, { recursive: true, force: true })
    const files = examples.map((code, index) => [`example-${index}.ts`, `${code}\nexport {}\n`])
    await writeFiles(source, { 'shop.d.ts': SURROUNDINGS, ...Object.fromEntries(files) })
    expect(await compile(modules, { ...options, noEmit: true }, 'examples')).toBe('')
  })

  it.each(cases.slice(0, 1))('runs a program, compiled with $compiler and $library', async ({ modules, options }) => {
    await writeFiles(project, { 'program/main.ts': PROGRAM })
    expect(await compile(modules, { ...options, outDir: 'out' }, 'program')).toBe('')
    expect(await runProgram(join(project, 'out/main.js'))).toEqual(RESULT)
  })
})

describe('a bundler', () => {
  it('bundles the client for a browser, small and without the verification of webhooks', async () => {
    const code = await bundle(`export * from '${PACKAGE}'`)
    expect(code).not.toMatch(/whsec_|^import /m)
    // Bundlers name the file of each part in a comment, by a path of any length.
    expect(code.replaceAll(/^\/\/ .*\n/gm, '').length).toBeLessThan(29_700)
    expect(await bundle(`export { createClient } from '${PACKAGE}'`)).not.toContain('several_orders')
  })

  it('bundles a program with all of it, which runs', async () => {
    await bundle(PROGRAM, join(project, 'bundled'))
    expect(await runProgram(join(project, 'bundled/main.js'))).toEqual(RESULT)
  })
})

/** What the compiler reports about a folder of the project. */
async function compile(modules: string, options: object, source: string): Promise<string> {
  const compilerOptions = {
    ...{ strict: true, exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true, skipLibCheck: false },
    ...{ module: 'nodenext', moduleResolution: 'nodenext', target: 'es2022', verbatimModuleSyntax: true },
    ...{ rootDir: source, noPropertyAccessFromIndexSignature: true, ...options },
  }
  await writeFiles(project, { 'tsconfig.json': JSON.stringify({ compilerOptions, include: [source] }) })
  const tsc = join(ROOT, modules, 'typescript/bin/tsc')
  return run(process.execPath, [tsc, '-p', project, '--pretty', 'false']).then(
    () => '',
    (error: { stdout: string }) => error.stdout,
  )
}

/** The minified code of one module. */
async function bundle(code: string, outDir?: string): Promise<string> {
  await writeFiles(project, { 'entry/main.ts': code })
  return bundleModule(project, 'entry/main.ts', outDir)
}

async function runProgram(script: string): Promise<unknown> {
  const data = { operation: 'create', version: 1, time: '2026-01-31T00:00:00.000Z', type: 'clients', id: 7 }
  const body = JSON.stringify({ type: 'client.created', timestamp: data.time, data })
  const sentAt = Math.floor(Date.now() / 1000)
  const signature = createHmac('sha256', KEY).update(`msg_1.${sentAt}.${body}`).digest('base64')
  const headers = {
    'webhook-id': 'msg_1',
    'webhook-timestamp': String(sentAt),
    'webhook-signature': `v1,${signature}`,
  }
  const base = `${simulator.url}/t/${crypto.randomUUID()}/api/v1/`
  const { stdout } = await run(process.execPath, [script, base, JSON.stringify({ body, headers })], { timeout: 30_000 })
  return JSON.parse(stdout)
}
