/// <reference types="vite/types/importMeta.d.ts" />
import { describe, expect, it } from 'vitest'
import { app } from '../src/app.ts'
import { contracts } from '../src/contracts.ts'
import { honoPath } from '../src/http/endpoint.ts'

/*
 * The rules of the architecture that no compiler knows. A rule is broken by a file, so that a failure names it.
 */
const sources = import.meta.glob<string>('../src/**/*.ts', { query: '?raw', import: 'default', eager: true })

/** What runs in the Worker: not the commands, not the description's maker, not the integrators' client. */
const worker = Object.entries(sources)
  .map(([path, text]) => ({
    path: path.replace('../src/', ''),
    text,
    imports: importsOf(path.replace('../src/', ''), text),
  }))
  .filter(({ path }) => !/^(cli|docs|client)\//.test(path))

/** Where a file imports from: packages as written, own files from `src/`. */
function importsOf(path: string, text: string): string[] {
  return Array.from(text.matchAll(/(?:import|export)\s[^'"`;]*?from\s+'([^']+)'|import\s+'([^']+)'/g), (match) => {
    const from = match[1] ?? match[2] ?? ''
    return from.startsWith('.') ? new URL(from, `https://x.example/${path}`).pathname.slice(1) : from
  })
}

function importers(ofPackage: RegExp): string[] {
  return worker.filter(({ imports }) => imports.some((from) => ofPackage.test(from))).map(({ path }) => path)
}

/** `clients`, `mail/threads`: the folder that owns a file. */
function sliceOf(path: string): string {
  return path.split('/').slice(0, -1).join('/')
}

describe('the test', () => {
  it('sees the sources and their imports', () => {
    expect(worker.length).toBeGreaterThan(40)
    const routes = worker.find(({ path }) => path === 'clients/routes.ts')
    expect(routes?.imports).toEqual(
      expect.arrayContaining(['hono', 'http/contract.ts', 'clients/contract.ts', 'clients/queries.ts']),
    )
  })
})

describe('who imports what', () => {
  it('Hono: the application, http/, the middleware and the routes', () => {
    const allowed = /^(app|routes|http\/\w+|auth\/authenticate|rate-limit\/middleware|.+\/routes)\.ts$/
    expect(importers(/^(hono|@hono)(\/|$)/).filter((path) => !allowed.test(path))).toEqual([])
  })

  it('Drizzle: db/, the tokens and the queries', () => {
    const allowed = /^(db\/\w+|auth\/tokens|.+\/(\w+-)?queries)\.ts$/
    expect(importers(/^drizzle-orm(\/|$)/).filter((path) => !allowed.test(path))).toEqual([])
  })

  it('queries: their own slice only', () => {
    const reaching = worker.flatMap(({ path, imports }) =>
      imports
        .filter((from) => from.endsWith('queries.ts') && sliceOf(from) !== sliceOf(path))
        .map((from) => `${path} → ${from}`),
    )
    expect(reaching).toEqual([])
  })

  it('the runtime’s bindings: Durable Objects, and no slice by itself', () => {
    expect(importers(/^cloudflare:workers$/).sort()).toEqual(['accounting/delivery.ts', 'rate-limit/limiter.ts'])
    const files = worker.filter(({ path }) => /(routes|queries|present|contract)\.ts$/.test(path))
    // The relay of uploads in development is mounted for the whole application, not for a company.
    const reading = files.filter(({ text }) => /\benv\.[A-Z]/.test(text)).map(({ path }) => path)
    expect(reading.filter((path) => path !== 'files/routes.ts')).toEqual([])
  })

  it('nothing of the commands, the description’s maker, the client or the tests', () => {
    expect(importers(/^(cli|docs|client)\/|\.\.\/test|vitest/)).toEqual([])
    // What the runtime has of its own.
    expect(importers(/^node:(?!buffer$|crypto$|zlib$)/)).toEqual([])
  })

  it('Zod whole, not in braces: braces bring every language of its messages', () => {
    for (const { path, text } of worker) expect(text, path).not.toMatch(/import\s*\{[^}]*\}\s*from\s*'zod'/)
  })
})

describe('the database', () => {
  it('is opened in db/client.ts, and by the tokens that are looked up before a company is known', () => {
    const openers = worker
      .filter(({ text }) => /\bdrizzle\(|\.withSession\(|\.prepare\(/.test(text))
      .map(({ path }) => path)
    expect(openers.filter((path) => !/^(db\/(client|sweep)|auth\/tokens)\.ts$/.test(path))).toEqual([])
  })

  it('is asked by functions that take the company first', () => {
    const functions = worker
      .filter(({ path }) => path.endsWith('queries.ts'))
      .flatMap(({ path, text }) =>
        Array.from(text.matchAll(/export (?:async )?function (\w+)\(\s*([^)]*)/g), ([, name, parameters = '']) => ({
          name: `${path} ${name}`,
          parameters: parameters.replaceAll(/\s+/g, ' '),
        })),
      )
    expect(functions.length).toBeGreaterThan(15)
    const others = functions.filter(
      ({ parameters }) =>
        !/^(db: Database, (companyId: number|company: Company|\{ companyId)|context: RequestContext|\{[^}]*\bcompanyId\b[^}]*\}: \w+)/.test(
          parameters,
        ),
    )
    expect(others.map(({ name }) => name)).toEqual([])
  })
})

describe('the routes', () => {
  const PUBLIC = ['GET /api/v1/openapi.json']

  it('under the API are those of the contracts and of the list of public ones', () => {
    const mounted = app.routes
      .filter(({ path, method }) => path.startsWith('/api/') && method !== 'ALL')
      .map(({ path, method }) => `${method} ${path}`)
    const contracted = contracts.map((contract) => `${contract.method} /api/v1${honoPath(contract)}`)
    expect([...new Set(mounted)].sort()).toEqual([...contracted, ...PUBLIC].sort())
  })

  it('are mounted from contracts, nowhere by hand', () => {
    const byHand = worker
      .filter(({ text }) => /\b(app|api)\.(get|post|put|patch|delete|all|on|use)\(/.test(text))
      .map(({ path }) => path)
    expect(byHand.filter((path) => !['app.ts', 'http/endpoint.ts', 'files/routes.ts'].includes(path))).toEqual([])
  })

  it('have handlers of a few lines', () => {
    for (const { path, text } of worker.filter((file) => file.path.endsWith('/routes.ts'))) {
      expect(text.split('\n').length, path).toBeLessThan(100)
    }
  })
})

describe('the core', () => {
  it('is pure: no clock, no chance, no network', () => {
    const pure =
      /^(orders\/(totals|present)|rate-limit\/window|db\/search|files\/keys|products\/style-token|accounting\/(decisions|collapse|invoice-payload)|clients\/present|http\/(errors|contract|pagination))\.ts$/
    const files = worker.filter(({ path }) => pure.test(path))
    expect(files).toHaveLength(13)
    for (const { path, text } of files)
      expect(text, path).not.toMatch(/Date\.now\(|new Date\(\)|Math\.random|crypto\.|\bfetch\(/)
  })

  it('writes to the log in one place', () => {
    const writers = worker.filter(({ text }) => /\bconsole[.[]/.test(text)).map(({ path }) => path)
    expect(writers).toEqual(['http/log.ts'])
  })
})
