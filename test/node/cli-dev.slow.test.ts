import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { get } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import { readDevVars } from '../../src/cli/local-runtime.ts'
import { decryptCredentials } from '../../src/kernel/db/credentials.ts'
import { smallShop } from '../support/small-shop.ts'
import { send } from '../tools/harness/http.ts'
import { killProcess, listDescendants, listProcesses } from '../tools/harness/processes.ts'
import { freshState, outputOf, runSql, writeSeed } from './cli-support.ts'
import { ask, serveState } from './dev-server.ts'
import { chooseFreePort, startCommand } from './servers.ts'

/** Starts a `dev` that should fail. If it serves, it ends with the test. */
function tryDev(...args: string[]) {
  const { child, ended } = startCommand('dev', args)
  onTestFinished(() => void child.kill('SIGTERM'))
  return ended
}

const unreachableSupplier = {
  base_url: 'http://127.0.0.1:1/service',
  credentials: { customer_number: '1', username: 'shop', password: 'secret' },
}

describe('npm run dev', () => {
  it('serves a sample company, lets other commands run at the same time, and keeps its data', async () => {
    const state = await freshState()
    const port = await chooseFreePort()
    const dev = await serveState(state, port)
    const createToken = async (company: string, name: string) =>
      (await outputOf('tokens', 'create', '--company', company, '--name', name, '--state', state)).trim()
    await expect
      .poll(() => dev.output.stdout)
      .toContain(`curl -H 'Authorization: Bearer ${dev.token}' '${dev.url}/api/v1/clients?per_page=3'`)
    // The settings are those of the sample company's owner.
    expect(dev.output.stdout).toContain(`${dev.url}/settings   (as owner@ridgeline.example)`)
    expect(runSql(state, 'SELECT company_id, email, role FROM members')).toEqual([
      { company_id: 1, email: 'owner@ridgeline.example', role: 'owner' },
    ])
    const list = await ask(dev, 'GET', '/clients?per_page=3')
    expect(list).toMatchObject({ status: 200, body: { pagination: { total: 60 } } })

    // The sample company uses the simulators of this run.
    const [stored] = runSql(state, "SELECT * FROM integrations WHERE kind = 'supplier_b'")
    expect(stored).toMatchObject({ base_url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/), enabled: 1 })
    const secret = await decryptCredentials(
      readDevVars().CREDENTIALS_KEY ?? '',
      1,
      'supplier_b',
      String(stored?.credentials),
    )
    expect(secret).toHaveProperty('api_key')

    // Requests continue while other commands write.
    const statuses: number[] = []
    let isBusy = true
    const requests = (async () => {
      for (let at = 0; isBusy; at++) {
        const isWrite = at % 2 === 0
        const { status } = isWrite
          ? await ask(dev, 'POST', '/clients', { company_name: `Customer ${at}` })
          : await ask(dev, 'GET', '/orders')
        statuses.push(status)
        await sleep(200)
      }
    })()
    const path = await writeSeed(smallShop(5))
    await Promise.all([
      outputOf('seed', path, '--state', state),
      outputOf('seed', await writeSeed(smallShop(6)), '--state', state),
    ])
    const token = await createToken('5', 'beside')
    isBusy = false
    await requests
    expect(statuses.length).toBeGreaterThan(3)
    expect(new Set(statuses)).toEqual(new Set([200]))

    // Their writes are visible at once.
    expect(await ask({ ...dev, token }, 'GET', '/orders/1')).toMatchObject({
      status: 200,
      body: { project: { title: 'Shirts' }, invoice: { subtotal: 114, amount_paid: 50 } },
    })
    const unused = await createToken('5', 'unused')
    const [row] = runSql(state, "SELECT id FROM api_tokens WHERE name = 'unused'")
    await outputOf('tokens', 'revoke', String(row?.id), '--state', state)
    expect((await ask({ ...dev, token: unused }, 'GET', '/clients')).status).toBe(401)

    // By its address it is a service like a deployed one.
    const { ADMIN_TOKEN } = readDevVars()
    const env = { CRM_API_URL: dev.url, CRM_ADMIN_TOKEN: ADMIN_TOKEN }
    expect((await startCommand('tokens', ['list', '--company', '5'], env).ended).stdout).toMatch(/ unused +revoked /)
    const unsigned = { ...env, CRM_ADMIN_TOKEN: '0'.repeat(64) }
    expect(await startCommand('tokens', ['list', '--remote', dev.url], unsigned).ended).toEqual({
      code: 1,
      stdout: '',
      stderr: `The administration token is not the ADMIN_TOKEN of ${dev.url}.\n`,
    })

    // No other server starts on this port or on this state directory.
    const [samePort, sameState] = await Promise.all([
      tryDev('--port', String(port)),
      tryDev('--port', String(await chooseFreePort()), '--state', state),
    ])
    expect(samePort).toEqual({ code: 1, stdout: '', stderr: `Port ${port} is in use: choose another with --port N.\n` })
    expect(sameState).toMatchObject({ code: 1, stdout: '' })
    expect(sameState.stderr).toMatch(/^http:\S+ serves this data already: choose another place with --state DIR\.\n$/)

    // The log has a failed request with its id and cause.
    const integrations = { supplier_a: unreachableSupplier }
    await outputOf('seed', await writeSeed({ ...smallShop(7), integrations }), '--state', state)
    const failed = await fetch(`${dev.url}/api/v1/products/supplier_a?style=PC61`, {
      headers: { authorization: `Bearer ${await createToken('7', 'broken')}`, 'x-request-id': 'failed-1' },
    })
    expect(failed.status).toBe(502)
    await expect.poll(() => dev.output.stderr).toContain('failed-1')
    expect(dev.output.stderr).toMatch(/"event":"upstream_failed".*\| supplier_a: the call failed: /)

    expect(await dev.stop()).toBe(0)
    await expect(fetch(dev.url)).rejects.toThrow()

    const again = await serveState(state, port)
    expect(again.token).not.toBe(dev.token)
    expect((await ask({ ...again, token }, 'GET', '/orders/1')).status).toBe(200)
    expect((await ask({ ...again, token: dev.token }, 'GET', '/clients')).status).toBe(200)
    expect(await again.stop('SIGINT')).toBe(0)
  })

  const startDev = `import('./test/node/servers.ts').then((module) => module.startDev(JSON.parse(process.argv[1])))`

  it.each<[string, NodeJS.Signals, (port: number, state: string) => string[]]>([
    [
      'npm is terminated',
      'SIGTERM',
      (port, state) => ['npm', 'run', 'dev', '--', '--port', String(port), '--state', state],
    ],
    [
      'the caller of startDev is killed',
      'SIGKILL',
      (port, state) => [process.execPath, '-e', startDev, JSON.stringify({ port, state })],
    ],
  ])('ends with all of its processes when %s', async (_name, signal, commandFor) => {
    const port = await chooseFreePort()
    const [command = '', ...args] = commandFor(port, await freshState())
    const parent = spawn(command, args, { stdio: 'ignore' })
    const pid = parent.pid ?? 0
    const isServing = () =>
      fetch(`http://127.0.0.1:${port}/api/v1/openapi.json`).then(
        (response) => response.ok,
        () => false,
      )
    await expect.poll(isServing, { timeout: 240_000, interval: 200 }).toBe(true)
    const processes = listDescendants(pid)
    onTestFinished(() => [pid, ...processes.map((each) => each.pid)].forEach(killProcess))
    expect(processes.map(({ name }) => name).join()).toContain('workerd')

    parent.kill(signal)
    const isLeft = (each: { pid: number }) => listProcesses().some((one) => one.pid === each.pid)
    await expect.poll(() => processes.filter(isLeft), { timeout: 30_000, interval: 500 }).toEqual([])
  })

  it('is served to names and addresses of this machine only', async () => {
    const dev = await serveState(await freshState())
    const { port } = new URL(dev.url)
    const statusFor = async (host: string) => {
      const headers = { host, authorization: `Bearer ${readDevVars().ADMIN_TOKEN}` }
      const sent = get(`${dev.url}/admin/v1/me`, { headers })
      const [response] = await once(sent, 'response')
      response.resume()
      return response.statusCode
    }
    const own = [`127.0.0.1:${port}`, `localhost:${port}`, `[::1]:${port}`]
    expect(await Promise.all(own.map(statusFor))).toEqual([200, 200, 200])
    const foreign = ['evil.example', `evil.example:${port}`, `localhost.evil.example:${port}`]
    expect(await Promise.all(foreign.map(statusFor))).toEqual([403, 403, 403])
  })

  it.each([
    [['--port', '0'], "--port must be between 1 and 65535, not '0'."],
    [['--port', 'http'], '--port must be'],
    [['--prot', '1'], "Unknown option '--prot'. Usage: npm run dev"],
    [['serve'], "Unexpected argument 'serve'"],
    [['--state', 'nowhere/data'], "--state: there is no directory '"],
  ])('rejects %j with a one-line error', async (args, message) => {
    const outcome = await tryDev(...args)
    expect(outcome).toMatchObject({ code: 1, stdout: '' })
    expect(outcome.stderr).toContain(message)
    expect(outcome.stderr.trimEnd().split('\n')).toHaveLength(1)
  })
})

/** Sends what is given and nothing more, and decodes nothing. */
async function sendRaw(url: string, method: string, headers: Record<string, string>, body?: object) {
  const { pathname: path } = new URL(url)
  const json: Record<string, string> = body ? { 'content-type': 'application/json' } : {}
  const wire = { method, path, headers: { ...headers, ...json }, body: body ? JSON.stringify(body) : null }
  const response = await send(url, wire)
  return { status: response.status, headers: response.headers, bytes: await response.bytes() }
}

it('serves the same bytes with a strong tag of the version to every Accept-Encoding', async () => {
  const { url, token } = await serveState(await freshState())
  const authorization = `Bearer ${token}`
  for (const [path, change] of [
    ['clients/17', { phone: '1' }],
    ['orders/44', { title: 'Renamed' }],
  ] as const) {
    const address = `${url}/api/v1/${path}`
    const plain = await sendRaw(address, 'GET', { authorization })
    for (const coding of ['gzip', 'gzip, br', 'br', '*']) {
      const headers = { authorization, 'accept-encoding': coding }
      const { status, headers: received, bytes } = await sendRaw(address, 'GET', headers)
      expect([status, received.get('etag'), bytes]).toEqual([200, plain.headers.get('etag'), plain.bytes])
      expect(received.get('etag')).toMatch(/^"\d+-[0-9a-f]{16}"$/)
      const known = await sendRaw(address, 'GET', { ...headers, 'if-none-match': `W/${received.get('etag')}` })
      expect([known.status, known.headers.get('etag')]).toEqual([304, received.get('etag')])
    }
    const headers = { authorization, 'accept-encoding': 'gzip, br', 'if-match': plain.headers.get('etag') ?? '' }
    const changed = await sendRaw(address, 'PATCH', headers, change)
    expect([changed.status, changed.headers.get('etag')]).toEqual([200, expect.stringMatching(/^"\d+"$/)])
    expect(JSON.parse(new TextDecoder().decode(changed.bytes))).toBeTypeOf('object')
    expect((await sendRaw(address, 'PATCH', headers, change)).status).toBe(412)
  }
  // What has no version is compressed still.
  const list = await sendRaw(`${url}/api/v1/clients`, 'GET', { authorization, 'accept-encoding': 'gzip' })
  expect(list.headers.get('content-encoding')).toBe('gzip')
})
