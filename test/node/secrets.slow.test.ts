import { randomBytes } from 'node:crypto'
import { cp, rm, writeFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { readDevVars } from '../../src/cli/local-runtime.ts'
import type { SeedInput } from '../../src/operation/copies/seed/file.ts'
import { startAccounting } from '../../src/simulators/accounting.ts'
import type { Fault } from '../../src/simulators/kit.ts'
import { startS3 } from '../../src/simulators/s3.ts'
import { S3_KEYS } from '../../src/simulators/s3-keys.ts'
import { look, spoil } from '../../src/simulators/steer.ts'
import { CREDENTIALS as SUPPLIER_A, startSupplierA } from '../../src/simulators/supplier-a.ts'
import { CREDENTIALS as SUPPLIER_B, startSupplierB } from '../../src/simulators/supplier-b.ts'
import { makeStateFolder, runCommand, runSql } from './cli-support.ts'
import {
  ACCOUNTING,
  BUCKET,
  findSecrets,
  formsOf,
  REQUESTS,
  readFolder,
  type Simulators,
  shopThatIsRefused,
  shopThatWorks,
  type Text,
  textOf,
  WRONG,
} from './secret-support.ts'
import { startWrangler } from './servers.ts'

/*
 * Uses every endpoint and command, successfully and not, with outside systems that echo what they receive; then searches
 * logs, responses and storage for every used secret, in every form.
 */
const LOG_MS = 120_000

let state: string
let outside: Simulators
const secrets: Record<string, string> = {}
const responses: Text[] = []
let wrangler: Awaited<ReturnType<typeof startWrangler>>
let commands = ''

beforeAll(async () => {
  state = await makeStateFolder()
  await cp(inject('emptyState'), state, { recursive: true })
  const [supplierA, supplierB, accounting, s3] = await Promise.all([
    startSupplierA(),
    startSupplierB(),
    startAccounting(),
    startS3(),
  ])
  outside = { supplierA, supplierB, accounting, s3 }
  collectSecrets()
  for (const [id, shop] of [shopThatWorks(outside), shopThatIsRefused(outside)].entries()) await seed(id, shop)
  secrets['token 1'] = await mintToken(1)
  secrets['token 2'] = await mintToken(2)
  secrets['revoked token'] = await mintToken(1)
  const listed = await runCommand('tokens', 'list', '--state', state)
  commands += listed.stdout + listed.stderr
  secrets['unknown token'] = randomBytes(32).toString('hex')
  await useEverything()
})

afterAll(async () => {
  await Promise.all(Object.values(outside ?? {}).map((simulator) => simulator.close()))
  await rm(state, { recursive: true, force: true })
})

function collectSecrets(): void {
  const settings = readDevVars()
  const { client_secret, refresh_token } = ACCOUNTING
  Object.assign(secrets, {
    CREDENTIALS_KEY: settings.CREDENTIALS_KEY,
    'CREDENTIALS_KEY, decoded': Buffer.from(settings.CREDENTIALS_KEY ?? '', 'base64').toString(),
    STORAGE_SECRET_ACCESS_KEY: settings.STORAGE_SECRET_ACCESS_KEY,
    'password of supplier_a': SUPPLIER_A.password,
    'key of supplier_b': SUPPLIER_B.api_key,
    'client secret': client_secret,
    'first refresh token': refresh_token,
    'secret of the storage': S3_KEYS.secret_access_key,
    ...Object.fromEntries(Object.entries(WRONG).map(([name, secret]) => [`refused ${name}`, secret])),
  })
}

async function seed(index: number, shop: SeedInput): Promise<void> {
  const file = `${state}-shop-${index}.json`
  try {
    await writeFile(file, JSON.stringify(shop))
    const { code, stdout, stderr } = await runCommand('seed', file, '--state', state)
    commands += stdout + stderr
    expect(code, stderr).toBe(0)
  } finally {
    await rm(file, { force: true })
  }
}

async function mintToken(company: number): Promise<string> {
  const created = await runCommand('tokens', 'create', '--company', String(company), '--name', 'it', '--state', state)
  expect(created.code, created.stderr).toBe(0)
  // Printed once, alone on standard output: anywhere else it is a leak.
  commands += created.stderr
  return created.stdout.trim()
}

/** Serves the state with its whole log, and uses every endpoint. */
async function useEverything(): Promise<void> {
  wrangler = await startWrangler('--persist-to', state, '--log-level', 'log')
  const url = `${wrangler.url}/api/v1`
  try {
    runSql(state, 'UPDATE api_tokens SET revoked_at = 1 WHERE id = (SELECT max(id) FROM api_tokens)')
    await useApi(url)
    await deliverEvents(url)
    await untilLogged(url)
  } finally {
    await wrangler.stop()
  }
}

/** Waits for the log line of one more request: lines come in order, so that the others are there, too. */
async function untilLogged(url: string): Promise<void> {
  const { headers } = await fetch(`${url}/clients`)
  const last = headers.get('x-request-id') ?? 'no id'
  for (const end = Date.now() + LOG_MS; Date.now() < end; await sleep(50)) {
    if (wrangler.printed.output.includes(last)) return
  }
  throw new Error(`The log ends before its last line: ${wrangler.printed.output.slice(-2_000)}`)
}

async function send(
  url: string,
  method: string,
  path: string,
  authorization: string | null,
  body?: unknown,
): Promise<{ status: number; text: string }> {
  const response = await fetch(url + path, {
    method,
    headers: {
      ...(authorization !== null && { authorization }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
    },
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  })
  const text = await response.text()
  responses.push(
    textOf(`response ${response.status} to ${method} ${path}`, `${JSON.stringify([...response.headers])}\n${text}`),
  )
  return { status: response.status, text }
}

async function useApi(url: string): Promise<void> {
  for (const name of ['token 1', 'token 2', 'revoked token', 'unknown token']) {
    for (const [method, path, body] of REQUESTS) await send(url, method, path, `Bearer ${secrets[name]}`, body)
  }
  const token = secrets['token 1'] ?? ''
  for (const authorization of [null, token, `Basic ${token}`, `Bearer ${token} ${token}`, `Bearer ${token}0`]) {
    await send(url, 'GET', '/clients', authorization)
  }
  // A refused value is not repeated.
  await send(url, 'POST', '/clients', `Bearer ${token}`, { company_name: 'A', email: token, tax_exempt: token })
  await send(url, 'POST', '/orders', `Bearer ${token}`, { title: 'A', client_id: 1, discount_amount_type: token })
  await sendBack(url)
}

/** Each outside system responds with what it received last: as an error, and as another value. */
async function sendBack(url: string): Promise<void> {
  const authorization = `Bearer ${secrets['token 1']}`
  const echo = Object.values(secrets).join(' | ')
  const faults: Fault[] = [500, 400, 403, 200].map((status) => ({ status, body: echo, headers: { 'x-echo': 'yes' } }))
  for (const [i, fault] of faults.entries()) {
    await spoil(`${outside.supplierA.url}/t/a`, fault)
    await send(url, 'GET', `/products/supplier_a?style=K50${i}`, authorization)
    await spoil(`${outside.supplierB.url}/t/b`, fault)
    await send(url, 'GET', `/products/supplier_b?styleId=${i + 1}`, authorization)
    await spoil(`${outside.s3.url}/t/${BUCKET}`, fault)
    await send(url, 'GET', '/orders/1/files', authorization)
  }
}

/** Delivers events whose tokens rotate twice, and events whose refusals repeat every token. */
async function deliverEvents(url: string): Promise<void> {
  const scope = `${outside.accounting.url}/t/x`
  const authorization = `Bearer ${secrets['token 1']}`
  const change = async (title: string, until: (state: { status: string }) => boolean) => {
    await send(url, 'PATCH', '/orders/1', authorization, { title })
    for (const end = Date.now() + LOG_MS; Date.now() < end; await sleep(100)) {
      const { accounting } = JSON.parse((await send(url, 'GET', '/orders/1', authorization)).text)
      if (until(accounting)) return
    }
    throw new Error(`The event of '${title}' was not handled.\n${wrangler.printed.output.slice(-2_000)}`)
  }
  await change('first', ({ status }) => status === 'synced')
  await collectTokens(scope)
  await fetch(`${scope}/__books`, { method: 'POST', body: JSON.stringify({ action: 'expire_access' }) })
  await change('second', ({ status }) => status === 'synced')
  await collectTokens(scope)

  // It can return everything it ever received: the client's secret and every token.
  const received = Object.entries(secrets).filter(
    ([name]) => name === 'client secret' || /accounting|refresh token$/.test(name),
  )
  for (const [name, secret] of received) {
    const Message = `No ${secret} ${encodeURIComponent(secret)} ${Buffer.from(`id:${secret}`).toString('base64')} here`
    const body = JSON.stringify({ Fault: { Error: [{ Message, code: '6240' }], type: 'ValidationFault' } })
    await spoil(scope, { match: 'POST .*invoice', status: 400, body })
    await change(name, ({ status }) => status !== 'synced' && status !== 'pending')
  }
}

/** Adds every token that the simulator issued or received to the secrets. */
async function collectTokens(scope: string): Promise<void> {
  const { calls, state: known } = await look<{ grants: Record<string, string>; accessTokens: object }>(scope)
  const shown = calls.flatMap(({ headers, body }) => [
    headers.authorization?.replace(/^\w+ /, '') ?? '',
    new URLSearchParams(body).get('refresh_token') ?? '',
  ])
  const given = [...Object.values(known.grants), ...Object.keys(known.accessTokens)]
  for (const token of new Set([...shown, ...given])) {
    if (token && !Object.values(secrets).includes(token)) secrets[`accounting ${Object.keys(secrets).length}`] = token
  }
}

describe('the search for secrets', () => {
  it('finds one in any form, anywhere in a text', () => {
    const secret = 'p&ss<word>"1\'/+é'
    const around = ['', 'a', 'ab', 'abc'].flatMap((before) => ['', 'z', 'yz'].map((after) => before + secret + after))
    const written = around.flatMap((text) => [
      text,
      JSON.stringify(text),
      encodeURIComponent(text),
      Buffer.from(text).toString('base64'),
      Buffer.from(text).toString('base64url'),
      Buffer.from(text).toString('hex'),
      `${new URLSearchParams({ text })}`.replaceAll("'", '%27'),
    ])
    for (const text of written) expect(findSecrets({ secret }, [textOf('it', text)]), text).not.toEqual([])
    expect(findSecrets({ secret }, [textOf('it', 'p&ss<word>')])).toEqual([])
  })

  it('knows every secret that was used', () => {
    const names = Object.keys(secrets)
    expect(names.filter((name) => name.startsWith('accounting')).length).toBeGreaterThanOrEqual(5)
    expect(names.length).toBeGreaterThanOrEqual(20)
    for (const [name, secret] of Object.entries(secrets)) expect(formsOf(secret).length, name).toBeGreaterThan(3)
    console.log(`${names.length} secrets in ${names.flatMap((name) => formsOf(secrets[name] ?? '')).length} forms`)
  })

  it('covers what was done: responses, the log, the database, the cache and the objects', () => {
    expect(responses.length).toBeGreaterThan(100)
    for (const status of [200, 400, 401, 404, 405, 502]) {
      expect(
        responses.some(({ place }) => place.startsWith(`response ${status} `)),
        String(status),
      ).toBe(true)
    }
    const { output } = wrangler.printed
    expect(output.match(/"event":"request"/g)?.length).toBeGreaterThan(100)
    expect(output).toContain('"event":"supplier_failed"')
    const stored = [...readFolder(state)]
    const holds = (folder: string, text: string) =>
      stored.some(({ place, latin1 }) => place.startsWith(`v3/${folder}`) && latin1.includes(text))
    expect(holds('d1', 'Other shirts')).toBe(true)
    expect(holds('d1', '(6240): No [secret] [secret] [secret] here')).toBe(true)
    expect(holds('kv', 'PC61')).toBe(true)
    expect(holds('do', 'window')).toBe(true)
  })
})

describe('no secret appears', () => {
  it('in a response', () => expect(findSecrets(secrets, responses)).toEqual([]))
  it('in the log', () => expect(findSecrets(secrets, [textOf('log', wrangler.printed.output)])).toEqual([]))
  it('in the output of the commands', () => expect(findSecrets(secrets, [textOf('commands', commands)])).toEqual([]))
  it('in the database, the cache, the objects or any other file', () =>
    expect(findSecrets(secrets, readFolder(state))).toEqual([]))
})
