/// <reference types="vite/types/importMeta.d.ts" />
import { expect, it } from 'vitest'
import { app } from '../src/app.ts'
import { honoPath } from '../src/kernel/api/endpoint.ts'
import { contracts } from './support/endpoints.ts'

/*
 * The rules of "The house" in the README that no compiler checks. Each rule is a function of source files that
 * returns its violations; it must find none in `src`, and the planted one in a made-up file.
 */
interface SourceFile {
  /** Below `src/`. */
  path: string
  text: string
  /** Packages as written, own files as paths below `src/`. */
  imports: string[]
}

type Rule = (files: SourceFile[]) => string[]

const texts = import.meta.glob<string>(
  ['../src/**/*', '!../src/client/{dist/**,schema.d.ts}', '!../src/site/reference/openapi.json'],
  { query: '?raw', import: 'default', eager: true },
)
const all = Object.entries(texts).map(([path, text]) => toSource(path.replace('../src/', ''), text))

function toSource(path: string, text: string): SourceFile {
  const found = text.matchAll(/^(?:(?:import|export)\s[^'"`;]*?from|import)\s+'([^']+)'/gm)
  const imports = Array.from(found, ([, from = '']) =>
    from.startsWith('.') ? new URL(from, `https://src.example/${path}`).pathname.slice(1) : from,
  )
  return { path, text, imports: path.endsWith('.ts') ? imports : [] }
}

const lineCount = ({ text }: SourceFile) => text.split('\n').length - 1
/** What runs in the Worker. */
const worker = (files: SourceFile[]) =>
  files.filter(({ path }) => /^(?!(cli|client|site|simulators)\/).*\.ts$/.test(path))

/** The places where a pattern occurs in the Worker's files. */
function occurrences(pattern: RegExp, allowed: RegExp = /^$/): Rule {
  return (files) =>
    worker(files)
      .filter(({ path }) => !allowed.test(path))
      .flatMap(({ path, text }) => Array.from(text.matchAll(pattern), ([found]) => `${path}: ${found.trim()}`))
}

/** The imports of some files that are not allowed. */
function imports(of: RegExp, unless: (path: string, from: string) => boolean): Rule {
  return (files) =>
    worker(files).flatMap(({ path, imports }) =>
      imports.filter((from) => of.test(from) && !unless(path, from)).map((from) => `${path} → ${from}`),
    )
}

const allowed = (paths: RegExp) => (path: string) => paths.test(path)
const folderOf = (path: string) => path.split('/').slice(0, 2).join('/')

/** From the bottom. The entry and the order of the middleware, `index.ts` and `app.ts`, import everything. */
const LAYERS = ['env.ts', 'kernel/http', 'kernel/db', 'kernel/gate', 'kernel/api', 'resources', 'delivery', 'operation']
const layerOf = (path: string) => LAYERS.findIndex((layer) => path.startsWith(layer))
const isUpward = (path: string, from: string) => layerOf(from) < 0 || layerOf(from) > layerOf(path)
const findUpwardImports = imports(/\.ts$/, (path, from) => /^(index|app)\.ts$/.test(path) || !isUpward(path, from))

function findCycles(files: SourceFile[]): string[] {
  const graph = new Map(files.map(({ path, imports }) => [path, imports]))
  const [done, cycles] = [new Set<string>(), [] as string[]]
  const visit = (path: string, trail: string[]) => {
    if (trail.includes(path)) cycles.push([...trail.slice(trail.indexOf(path)), path].join(' → '))
    if (trail.includes(path) || done.has(path)) return
    for (const next of graph.get(path) ?? []) if (graph.has(next)) visit(next, [...trail, path])
    done.add(path)
  }
  for (const path of graph.keys()) visit(path, [])
  return cycles
}

const CONTEXT =
  /^(\w+|\{[^}]*\}): (Pick<)?(Company|Request|Admin|Load)Context\b|^(p|\{[^}]*\}): \w*(Placeholders|Which|Key)/

/** Query functions whose first parameter is no context. What decodes a result queries nothing. */
function findQueriesWithoutContext(files: SourceFile[]): string[] {
  const queries = worker(files).filter(({ path }) => /queries\.ts$/.test(path))
  return queries.flatMap(({ path, text }) => {
    const functions = text.matchAll(/^export (?:async )?function (\w+)(?:<[^>]*>)?\(\s*([^)]*)/gm)
    const breaches = Array.from(functions).filter(
      ([, name = '', parameters = '']) =>
        !/^(decode|present)/.test(name) && !CONTEXT.test(parameters.replaceAll(/\s+/g, ' ')),
    )
    return breaches.map(([, name]) => `${path} ${name}`)
  })
}

/** Small files that belong into their only importer, unless a test of their own shows them to be pure. */
function findSmallFiles(files: SourceFile[]): string[] {
  const tests = Object.keys(import.meta.glob('./**/*.test.ts'))
  const tested = tests.map((path) => path.replace(/.*\/|\.(isolated|fresh)/g, '').replace('.test.ts', '.ts'))
  const named = /^(index|app|env)\.ts$|\/(context|contract|routes|documentation|queries)\.ts$/
  const isImportedOnce = (path: string) => files.filter(({ imports }) => imports.includes(path)).length === 1
  return worker(files)
    .filter((file) => lineCount(file) < 40 && isImportedOnce(file.path) && !named.test(file.path))
    .flatMap(({ path }) => (tested.includes(path.split('/').at(-1) ?? '') ? [] : [path]))
}

function findOversize(files: SourceFile[]): string[] {
  const own = files.filter(({ path }) => path.endsWith('.ts') && !path.startsWith('simulators/'))
  const lines = own.map(lineCount).sort((a, b) => a - b)
  const total = lines.reduce((sum, count) => sum + count, 0)
  const [median = 0] = lines.slice(lines.length / 2)
  const folders = Map.groupBy(own, ({ path }) => path.slice(0, path.lastIndexOf('/')))
  const long = own.filter((file) => lineCount(file) > 300 && file.path !== 'kernel/db/schema.ts')
  const full = [...folders].filter(
    ([folder, files]) => /^(resources|delivery|operation)\//.test(folder) && files.length > 17,
  )
  return [
    ...long.map((file) => `${file.path}: ${lineCount(file)} lines`),
    ...(own.length > 205 ? [`${own.length} files`] : []),
    ...(total > 28_000 ? [`${total} lines`] : []),
    ...(median >= 135 ? [`a median of ${median} lines`] : []),
    ...full.map(([folder]) => `${folder} has more than 17 files`),
  ]
}

/** Contracts without a route or documentation in their folder. */
function findIncompleteSlices(files: SourceFile[]): string[] {
  const contracts = files.filter(({ path }) => path.endsWith('/contract.ts'))
  return contracts.flatMap(({ path, text }) => {
    const beside = (name: string) => files.find((file) => file.path === path.replace('contract.ts', name))?.text ?? ''
    const names = Array.from(
      text.matchAll(/export const (\w+) = (?:define\w*|adminContracts\([^)]*\))\(/g),
      ([, name = '']) => name,
    )
    const routed = names.filter((name) => beside('routes.ts').includes(`contract.${name}`))
    const documented = names.filter((name) => `${text}${beside('documentation.ts')}`.includes(` ${name}: {`))
    const incomplete = names.filter((name) => !routed.includes(name) || !documented.includes(name))
    return incomplete.map((name) => `${path}: ${name}`)
  })
}

/** `planted` is a breach: what a file of queries would have, or files by their paths. */
const RULES: Record<string, [rule: Rule, planted: string | Record<string, string>]> = {
  '1: columns have the names of the wire, which Drizzle takes from their keys': [
    occurrences(
      /^ {2,4}(\w*[A-Z]\w*: (text|integer|real|bool|flag)\(|\w+: (text|integer|real)\(').*/gm,
      /^(?!kernel\/db\/schema\.ts)/,
    ),
    { 'kernel/db/schema.ts': "    taxExempt: flag('tax_exempt')," },
  ],
  '1: presenters do not map names': [
    occurrences(/(\n\s+(\w+): \w+\.\2,){4,}/g, /documentation\.ts$/),
    '\n  a: row.a,\n  b: row.b,\n  c: row.c,\n  d: row.d,',
  ],
  '2: every contract has a route and documentation': [
    findIncompleteSlices,
    { 'resources/clients/contract.ts': "export const readBadge = define('readBadge', 'GET /badges', {})" },
  ],
  '2: routes are mounted from contracts, nowhere by hand': [
    occurrences(
      /\b(app|api)\.(get|post|put|patch|delete|all|on)\(/g,
      /^(app|kernel\/api\/endpoint|operation\/admin\/endpoint)\.ts$/,
    ),
    "app.get('/badges', handle)",
  ],
  '3: query functions take the context first': [
    findQueriesWithoutContext,
    'export async function findBadge(db: Database, companyId: number) {}',
  ],
  '3: only kernel/db/client.ts opens the database, the sweep apart': [
    occurrences(/\bdrizzle\(|\.withSession\(|\.prepare\((?!\))/g, /^kernel\/db\/(client|sweep)\.ts$/),
    'const db = drizzle(env.DB)',
  ],
  '3: Drizzle is imported by the database, the tokens, the queries and what several of these share': [
    imports(
      /^drizzle-orm(\/|$)/,
      allowed(/^(kernel\/(db\/\w+|gate\/tokens)|resources\/mail\/content|.+\/((\w+-)?queries|\w+-sql))\.ts$/),
    ),
    { 'resources/clients/routes.ts': "import { sql } from 'drizzle-orm'" },
  ],
  '3: no INSERT … SELECT goes without its column list': [
    occurrences(/INSERT INTO \S+\s+SELECT|\.insert\([^)]*\)\s*\.select\(/gi, /^kernel\/db\/columns\.ts$/),
    'orm.insert(segments).select(sql`SELECT 1`)',
  ],
  '4: outbound calls go through kernel/http/outbound': [
    occurrences(
      /\bawait fetch\(|[=(,] fetch\(|return fetch\(/g,
      /^(kernel\/http\/outbound|resources\/files\/relay)\.ts$/,
    ),
    'const response = await fetch(url)',
  ],
  '4: addresses of companies are checked before they are called': [
    occurrences(/\bcallOutside\(/g, /^kernel\/http\/outbound\.ts$/),
    'return await callOutside(request, timeoutMs, read)',
  ],
  '4: caches of an isolate go through kernel/http/isolate': [
    occurrences(/^(export )?(const|let) \w+(: (?!Readonly)[^=]+)? = new (Weak)?(Map|Set)\b.*/gm),
    'const found = new Map<string, string>()',
  ],
  '5: a small file with one importer is merged': [
    findSmallFiles,
    {
      'resources/clients/badge.ts': 'export const a = 1\n',
      'resources/clients/queries.ts': "import { a } from './badge.ts'",
    },
  ],
  '5 and 7: files and folders stay small': [findOversize, '\n'.repeat(301)],
  '8: there are no cycles, not even of types': [
    findCycles,
    {
      'kernel/http/a.ts': "import type { B } from './b.ts'",
      'kernel/http/b.ts': "import type { A } from './a.ts'",
    },
  ],
  '8: imports point one way: operation, delivery, resources, then the kernel with api, gate, db and http': [
    findUpwardImports,
    { 'kernel/gate/tokens.ts': "import { Lease } from '../api/context.ts'" },
  ],
  '8: a slice uses the queries and routes of no other, but a batch runs the operations of all': [
    imports(
      /^(resources|delivery|operation)\/.*(queries|routes)\.ts$/,
      (path, from) => folderOf(path) === folderOf(from) || ['app.ts', 'resources/batch/routes.ts'].includes(path),
    ),
    "import { findOrder } from '../orders/queries.ts'",
  ],
  '8: the Worker imports nothing of the commands, the description, the client, the settings page, the simulators or the tests':
    [
      imports(/^(cli|client|site|simulators)\/|^test\/|vitest|^node:(?!buffer$|crypto$|stream$|zlib$)/, () => false),
      "import { open } from 'node:fs'",
    ],
  '8: nothing in src imports from test': [
    (files) => files.flatMap(({ path, text }) => (/from '(\.\.\/)+test\//.test(text) ? [path] : [])),
    { 'cli/dev.ts': "import { a } from '../../test/support/app.ts'" },
  ],
  'Hono is imported by the application, http, the middleware and development’s relay only': [
    imports(
      /^(hono|@hono)(\/|$)/,
      allowed(
        /^(app|kernel\/(http\/\w+|api\/(context|endpoint|input)|gate\/(admit|token-state))|resources\/files\/relay|operation\/admin\/endpoint)\.ts$/,
      ),
    ),
    "import { Hono } from 'hono'",
  ],
  'the runtime is imported by Durable Objects and what counts failures only': [
    imports(
      /^cloudflare:workers$/,
      allowed(/^(kernel\/(db\/company-object|gate\/(company-)?limiter)|operation\/health\/failures)\.ts$/),
    ),
    "import { env } from 'cloudflare:workers'",
  ],
  'the slices get what the bindings are for, not the bindings': [
    occurrences(
      /\benv\.[A-Z]\w+/g,
      /^(app|index|kernel\/(gate\/[\w-]+|db\/company-object)|delivery\/\w+\/delivery|operation\/(copies\/company-backup|health\/(routes|gauges)|admin\/.+)|resources\/files\/(storage|relay))\.ts$/,
    ),
    'await env.DB.batch([])',
  ],
  'a company is written through databaseFor, which refuses its writes during a move; whole databases by few files': [
    occurrences(
      /(?<!function |[.\w])(openDatabase|openEach|forEachDatabase|drizzle)\(|\bbinding\.(prepare|batch)\(/g,
      /^(index|kernel\/(db\/(client|placement|audit|refusals|sweep)|gate\/(tokens|admit))|delivery\/\w+\/delivery|operation\/(copies\/(company-backup|move)|health\/\w+|admin\/(queries|(companies|databases)\/queries|databases\/routes)))\.ts$/,
    ),
    'await openDatabase(binding).write([])',
  ],
  'Zod is imported whole: named imports bundle every language of its messages': [
    occurrences(/import\s*\{[^}]*\}\s*from\s*'zod[^']*'/g),
    "import { string } from 'zod'",
  ],
  'the log is written in one place': [occurrences(/\bconsole[.[]/g, /^kernel\/http\/isolate\.ts$/), "console.log('a')"],
  'the core is pure: no clock, no chance, no network': [
    occurrences(
      /Date\.now\(|new Date\(\)|Math\.random|crypto\.|\bfetch\(/g,
      /^(?!(resources\/(orders\/totals|files\/keys|products\/style-token)|kernel\/(db\/(columns|search)|http\/errors|api\/contract)|delivery\/accounting\/(decisions|invoice-payload))\.ts$)/,
    ),
    { 'resources/orders/totals.ts': 'const now = Date.now()' },
  ],
}

it('reads the sources and their imports', () => {
  expect(worker(all).length).toBeGreaterThan(40)
  const { imports } = all.find(({ path }) => path === 'resources/clients/routes.ts') ?? {}
  const some = ['kernel/api/contract.ts', 'resources/clients/contract.ts', 'resources/clients/queries.ts']
  expect(imports).toEqual(expect.arrayContaining(some))
})

it.each(Object.entries(RULES))('%s', (_, [rule, planted]) => {
  expect(rule(all)).toEqual([])
  const texts = typeof planted === 'string' ? { 'resources/clients/queries.ts': planted } : planted
  const breached = Object.entries(texts).map(([path, text]) => toSource(path, text))
  const others = all.filter(({ path }) => !(path in texts))
  expect(rule([...others, ...breached])).not.toEqual([])
})

it('mounts the routes of the contracts and the public description', () => {
  const mounted = app.routes
    .filter(({ path, method }) => path.startsWith('/api/') && method !== 'ALL')
    .map(({ path, method }) => `${method} ${path}`)
  const contracted = contracts.map((contract) => `${contract.method} /api/v1${honoPath(contract)}`)
  expect([...new Set(mounted)].sort()).toEqual([...contracted, 'GET /api/v1/openapi.json'].sort())
})
