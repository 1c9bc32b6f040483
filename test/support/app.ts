import {
  applyD1Migrations,
  createExecutionContext,
  listDurableObjectIds,
  reset,
  runInDurableObject,
  waitOnExecutionContext,
} from 'cloudflare:test'
import { env, exports } from 'cloudflare:workers'
import { expect } from 'vitest'
import { app } from '../../src/app.ts'
import type { Env } from '../../src/env.ts'
import { PERMISSIONS } from '../../src/kernel/gate/permissions.ts'
import { hashToken } from '../../src/kernel/gate/tokens.ts'
import { expectConforms } from './conformance.ts'
import { overlap, placeLookAlike } from './look-alike.ts'
import { cloneForPrism, passThroughPrism } from './prism.ts'

const ORIGIN = 'https://api.test'

/** No other number in the tests is that of a company: see {@link sql}. */
const FIRST_COMPANY = 700_001
let nextId = FIRST_COMPANY

/** An id that no other company of this file has. */
export function freshId(): number {
  return nextId++
}

export interface TestCompany {
  id: number
  token: string
  /** The database with its data. */
  home: Home
  /** Sends a request with this company's token; an object as body goes as JSON. */
  call: (method: string, path: string, body?: unknown, headers?: Record<string, string>) => Promise<ApiResponse>
}

export interface ApiResponse {
  status: number
  headers: Headers
  // Tests read bodies freely; their shape is checked against the published description.
  // biome-ignore lint/suspicious/noExplicitAny: see above
  body: any
}

/** Done before each file, which may begin with companies of its own. @param isEmpty without a look-alike */
export async function migrate(isEmpty = false): Promise<void> {
  await applyD1Migrations(env.DB, env.TEST_MIGRATIONS)
  await applyD1Migrations(env.DB_TWO, env.TEST_MIGRATIONS)
  if (isEmpty) return
  await placeLookAlike('DB')
  await placeLookAlike('DB_TWO')
}

/**
 * Empties all storage that a later file may meet: a token's object has a random name. `reset` empties what is in memory,
 * which an object, database or bucket is no more that nobody has used for ten seconds.
 */
export async function removeEverything(): Promise<void> {
  const { COMPANY_LIMITER, ACCOUNTING_DELIVERY, WEBHOOK_DELIVERY, COMPANY_BACKUP } = env
  await Promise.all([COMPANY_LIMITER, ACCOUNTING_DELIVERY, WEBHOOK_DELIVERY, COMPANY_BACKUP].map(load))
  await Promise.all([
    ...[env.DB, env.DB_TWO].map((database) => database.prepare('SELECT 1').run()),
    ...[env.FILES, env.BACKUPS].map((bucket) => bucket.head('none')),
    env.CACHE.get('none'),
  ])
  await reset()
  // A machine that stands still for those ten seconds leaves a database as it was.
  for (const database of [env.DB, env.DB_TWO]) if (await hasCompanies(database)) await removeEverything()
}

async function hasCompanies(database: D1Database): Promise<boolean> {
  return (await database.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'companies'").first()) !== null
}

async function load(objects: DurableObjectNamespace): Promise<void> {
  const ids = await listDurableObjectIds(objects)
  await Promise.all(ids.map((id) => runInDurableObject(objects.get(id), () => undefined)))
}

/** The databases of companies. */
export type Home = 'DB' | 'DB_TWO'

/** Where each company is. */
const homes = new Map<unknown, Home>()

/**
 * Of the test file that runs. `minted` counts companies: the second one that it makes before its tests lives in the second
 * database. Those of a test, whose order is random, live in the first one unless it says otherwise. With `isFar` all are in
 * the second database, from slot 1,023 down, with ids near 2^48. With `isIsolated` everything is removed before and after it.
 */
export const testFile = { minted: 0, isFar: false, isIsolated: false }

/** The database of a company. */
export const homeOf = (companyId: unknown): Home => homes.get(companyId) ?? 'DB'

/** What only the directory has. */
const OF_DIRECTORY = /\b(api_tokens|members|admin_log|moves)\b/
/** What its row repeats of a company in another database. */
const REPEATED = /^UPDATE companies SET (name|suspended)\b/

/** Runs SQL with its parameters in the database of the company that these name, or else in the directory. */
export async function sql<T = Record<string, unknown>>(text: string, ...params: unknown[]): Promise<T[]> {
  const home = homeOf(params.find((each) => homes.has(each)))
  if (home !== 'DB' && REPEATED.test(text)) await sqlIn('DB', text, ...params)
  return sqlIn(OF_DIRECTORY.test(text) ? 'DB' : home, text, ...params)
}

/** Runs SQL in one of the databases. */
export async function sqlIn<T = Record<string, unknown>>(home: Home, text: string, ...params: unknown[]): Promise<T[]> {
  const { results } = await env[home]
    .prepare(text)
    .bind(...params)
    .all<T>()
  return results
}

/**
 * Companies give out the same ids; here each has a range of its own, so that another company's id is none of its ids,
 * except for the look-alike's.
 */
const ID_SPAN = 10_000_000

/** The ids that a test gives follow it. */
export const firstId = () => (testFile.isFar ? 2 ** 48 - ID_SPAN : 0)

/** The ids that a company gives out follow it. */
const idsOf = (companyId: number) =>
  testFile.isFar ? 2 ** 48 - (companyId - FIRST_COMPANY + 2) * ID_SPAN : companyId * ID_SPAN

/** The lowest slot without a company, in SQL over `companies`. */
export const FREE_SLOT = 'coalesce(min(slot + 1) FILTER (WHERE slot + 1 NOT IN (SELECT slot FROM companies)), 0)'

/** A company of its own, with two statuses (the first is the default), a tax of 8.25 % and a token. */
export async function mintCompany(
  options: { id?: number; permissions?: string[]; suspended?: boolean; home?: Home } = {},
): Promise<TestCompany> {
  const { id = freshId() } = options
  const { isFar } = testFile
  const { home = ++testFile.minted === 2 || isFar ? 'DB_TWO' : 'DB' } = options
  // A number that others may send, too, must not name a database.
  if (options.id === undefined) homes.set(id, home)
  const db = env[home]
  await db.batch([
    db
      .prepare(
        `INSERT INTO companies (id, slot, name, suspended, last_client_id, last_order_id, last_invoice_id, created_at, updated_at)
       SELECT ?1, ${isFar ? 'coalesce(min(slot) FILTER (WHERE slot > 511), 1024) - 1' : FREE_SLOT},
         'Company ' || CAST(?1 AS INTEGER), ?2, ?3, ?3, ?3, 0, 0 FROM companies`,
      )
      .bind(id, options.suspended ? 1 : 0, idsOf(id)),
    db
      .prepare(
        `INSERT INTO order_statuses (company_id, id, title, color, workflow_key, position, is_default)
       VALUES (?1, ?1 * 100 + 1, 'New', '#111', 'new', 1, 1), (?1, ?1 * 100 + 2, 'Printing', '#222', 'production', 2, 0)`,
      )
      .bind(id),
    db.prepare('INSERT INTO taxes (company_id, id, name, rate) VALUES (?1, ?1 * 100 + 1, ?2, 8.25)').bind(id, 'State'),
    ...overlap(home, idsOf(id)),
  ])
  if (home !== 'DB') {
    const [row] = await sqlIn<{ slot: number }>(home, 'SELECT slot FROM companies WHERE id = ?', id)
    await sqlIn(
      'DB',
      `INSERT INTO companies (id, slot, name, suspended, database, database_slot, created_at, updated_at)
       VALUES (?1, ?4, 'Company ' || CAST(?1 AS INTEGER), ?2, ?3, ?4, 0, 0)`,
      ...[id, options.suspended ? 1 : 0, home, row?.slot],
    )
  }
  const token = await mintToken(id, options.permissions)
  return { id, token, home, call: (method, path, body, headers) => call(token, method, path, body, headers) }
}

export async function mintToken(
  companyId: number,
  permissions: readonly string[] = PERMISSIONS,
  expiresAt: number | null = null,
): Promise<string> {
  const token = randomToken()
  await sql(
    `INSERT INTO api_tokens (company_id, token_hash, name, permissions, created_at, expires_at) VALUES (?, ?, 'test', ?, 0, ?)`,
    ...[companyId, hashToken(token), JSON.stringify(permissions), expiresAt],
  )
  return token
}

/** 64 hexadecimal characters that no company has. */
export function randomToken(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(32)), (b) => b.toString(16).padStart(2, '0')).join('')
}

/** A request as an integrator sends it. */
export function request(
  token: string | null,
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
): Request {
  return new Request(`${ORIGIN}/api/v1${path}`, {
    method,
    headers: {
      ...(token !== null && { authorization: `Bearer ${token}` }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  })
}

/** Sends a request to the Worker. Every response is checked against the published description. */
export async function call(...input: Parameters<typeof request>): Promise<ApiResponse> {
  return send(request(...input))
}

/**
 * Sends a request to the Worker, or to its application with other bindings (`env`), or to another application (`app`),
 * whose responses are not checked against the published description. Then the work after the response is waited for.
 */
export async function send(sent: Request, options: { env?: Env; app?: typeof app } = {}): Promise<ApiResponse> {
  if (options.app) return bodyOf(await fetchWith(sent, options.env ?? env, options.app))
  const copy = cloneForPrism(sent)
  const response = options.env ? await fetchWith(sent, options.env) : await exports.default.fetch(sent)
  await expectConforms(sent, response)
  await passThroughPrism(copy, response)
  return bodyOf(response)
}

/** The body of a response, which must be a 200. */
export function expect200({ status, body }: ApiResponse): ApiResponse['body'] {
  expect(status, JSON.stringify(body)).toBe(200)
  return body
}

/** The paths of the issues of a 400, in their order. */
export function issuesOf(response: Pick<ApiResponse, 'status' | 'body'>): string[] {
  expect(response).toMatchObject({ status: 400, body: { error: { code: 'invalid_request' } } })
  return response.body.error.details.issues.map((issue: { path: string }) => issue.path)
}

/** Each value with its field, of a table that has the values of a field in one row. */
export const eachValue = (rows: [field: string, ...values: unknown[]][]) =>
  rows.flatMap(([field, ...values]) => values.map((value): [string, unknown] => [field, value]))

export async function bodyOf(response: Response): Promise<ApiResponse> {
  // workerd warns of `text()` on lines of JSON.
  const text = new TextDecoder().decode(await response.arrayBuffer())
  const isJson = !response.headers.get('content-type')?.startsWith('application/x-ndjson')
  const body = text === '' ? null : isJson ? JSON.parse(text) : text
  return { status: response.status, headers: response.headers, body }
}

async function fetchWith(sent: Request, bindings: Env, api = app): Promise<Response> {
  const context = createExecutionContext()
  const response = await api.fetch(sent, bindings, context)
  // A streamed response goes on behind its beginning, and must be read for that.
  const whole = response.body ? new Response(await response.arrayBuffer(), response) : response
  await waitOnExecutionContext(context)
  return whole
}
