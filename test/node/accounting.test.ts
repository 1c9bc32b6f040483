import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import { credentialsFor, startAccounting } from '../simulators/accounting.ts'
import { freshState, runCommand, runSql, smallShop, startCommand, writeSeed } from './cli-support.ts'

const READY_MS = 60_000
const REALM = '7007'

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  return typeof address === 'object' && address ? address.port : 0
}

/** A request that came while the service was killed may never be answered. */
const patience = () => AbortSignal.timeout(5_000)

async function startDev(state: string, port: number) {
  const dev = startCommand('dev', ['--port', String(port), '--state', state])
  onTestFinished(() => {
    dev.child.kill('SIGTERM')
  })
  const end = Date.now() + READY_MS
  while (!dev.outcome.stdout.includes('curl') && dev.child.exitCode === null && Date.now() < end) await sleep(50)
  const [, token = ''] = /Token +([0-9a-f]{64})/.exec(dev.outcome.stdout) ?? []
  expect(token, dev.outcome.stderr).not.toBe('')
  const api = async (method: string, path: string, body?: object) => {
    const response = await fetch(`http://127.0.0.1:${port}/api/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      signal: patience(),
      ...(body && { body: JSON.stringify(body) }),
    })
    return { status: response.status, body: JSON.parse(await response.text()) }
  }
  return { ...dev, url: `http://127.0.0.1:${port}`, api }
}

type Dev = Awaited<ReturnType<typeof startDev>>

/** The processes that a process started, and theirs. */
function listDescendants(pid: number): { pid: number; name: string }[] {
  const lines = execFileSync('ps', ['-eo', 'pid=,ppid=,comm='], { encoding: 'utf8' }).trim().split('\n')
  const all = lines.map((line) => {
    const [own, parent, ...name] = line.trim().split(/\s+/)
    return { pid: Number(own), parent: Number(parent), name: name.join(' ') }
  })
  const own = all.filter((each) => each.parent === pid)
  return [...own, ...own.flatMap((each) => listDescendants(each.pid))]
}

/** The process that runs the service: the last that was started, for the first only passes requests on. */
function killWorkerd(dev: Dev): void {
  const workers = listDescendants(dev.child.pid ?? 0).filter((each) => each.name.includes('workerd'))
  const pid = Math.max(...workers.map((each) => each.pid))
  process.kill(pid, 'SIGKILL')
}

async function killEverything(dev: Dev): Promise<void> {
  const pids = [dev.child.pid ?? 0, ...listDescendants(dev.child.pid ?? 0).map((each) => each.pid)]
  for (const pid of pids) process.kill(pid, 'SIGKILL')
  await dev.ended
}

interface Seen {
  calls: { path: string }[]
  state: { realms: Record<string, { invoices: object; changes: { operation: string }[]; misused: string[] }> }
}

/** A shop in a state directory of its own, whose accounting system this process plays: it outlives every kill. */
async function openShop() {
  const accounting = await startAccounting()
  onTestFinished(accounting.close)
  const books = `${accounting.url}/t/books`
  const shop = smallShop()
  const path = await writeSeed({
    ...shop,
    company: { id: 1, name: 'Shop', accounting_sync_enabled: true },
    integrations: { accounting_sync: { base_url: books, credentials: { ...credentialsFor(REALM) } } },
  })
  const state = await freshState()
  expect(await runCommand('seed', path, '--state', state)).toMatchObject({ code: 0, stderr: '' })
  const spoil = (...faults: object[]) => fetch(`${books}/__simulator`, { method: 'PUT', body: JSON.stringify(faults) })
  const look = async (): Promise<Seen> => JSON.parse(await (await fetch(`${books}/__simulator`)).text())
  const waitForCall = async (pattern: RegExp) => {
    const { length } = (await look()).calls
    return async () => {
      for (let tries = 0; tries < 200; tries++) {
        const { calls } = await look()
        if (calls.slice(length).some((call) => pattern.test(call.path))) return
        await sleep(50)
      }
      throw new Error('The call did not come.')
    }
  }
  return { state, spoil, look, waitForCall }
}

/** The cron trigger, which comes every minute here, is pulled all the while. */
async function waitUntilSynced(dev: Dev, orderId: number): Promise<void> {
  const end = Date.now() + 60_000
  let seen: unknown
  while (Date.now() < end) {
    try {
      await (await fetch(`${dev.url}/cdn-cgi/local/scheduled`, { signal: patience() })).body?.cancel()
      const { body } = await dev.api('GET', `/orders/${orderId}`)
      seen = body.accounting
      if (body.accounting?.status === 'synced') return
    } catch {
      // It is being started anew.
    }
    await sleep(500)
  }
  throw new Error(`Not synced: ${JSON.stringify(seen)}`)
}

function accountingCommand(...args: string[]) {
  const child = spawn(process.execPath, ['src/cli/accounting.ts', ...args])
  const outcome = { stdout: '', stderr: '' }
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    outcome.stdout += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    outcome.stderr += text
  })
  return once(child, 'close').then(([code]) => ({ ...outcome, code }))
}

describe('accounting notices in a service that is killed', () => {
  it('are delivered after the restart, once', { timeout: 300_000 }, async () => {
    const { state, spoil, look, waitForCall } = await openShop()
    const port = await freePort()
    let dev = await startDev(state, port)

    // Committed, and not a word told: its first call, for a token, hangs.
    await spoil({ match: '^POST /oauth2', delayMs: 5_000 })
    let called = await waitForCall(/oauth2/)
    expect((await dev.api('PATCH', '/orders/1', { description: 'first' })).status).toBe(200)
    await called()
    killWorkerd(dev)
    await waitUntilSynced(dev, 1)

    // In the middle of the call that tells it, which is carried out while nobody hears the answer.
    await spoil({ match: '^POST .*invoice', apply: true, delayMs: 1_000, destroy: true })
    called = await waitForCall(/invoice\?/)
    expect((await dev.api('PATCH', '/orders/1', { description: 'second' })).status).toBe(200)
    await called()
    killWorkerd(dev)
    await waitUntilSynced(dev, 1)

    // Everything at once, and a start of its own.
    await spoil({ match: '^POST .*invoice', delayMs: 60_000 })
    called = await waitForCall(/invoice\?/)
    expect((await dev.api('PATCH', '/orders/1', { description: 'third' })).status).toBe(200)
    await called()
    await killEverything(dev)
    dev = await startDev(state, port)
    await waitUntilSynced(dev, 1)

    const { invoices, changes, misused } = (await look()).state.realms[REALM] ?? {}
    expect(Object.values(invoices ?? {})).toMatchObject([{ DocNumber: '1001', PrivateNote: 'third', TotalAmt: 109.87 }])
    expect(changes?.map((change) => change.operation)).toEqual(['customer', 'create', 'update', 'update'])
    expect(misused).toEqual([])
    expect(runSql(state, "SELECT count(*) AS n FROM accounting_outbox WHERE state <> 'done'")).toEqual([{ n: 0 }])
  })
})

describe('npm run accounting', () => {
  it('lists what could not be told, and sends it again', { timeout: 180_000 }, async () => {
    const { state, spoil, look } = await openShop()
    const dev = await startDev(state, await freePort())
    const fault = (code: string) => ({
      status: 400,
      body: JSON.stringify({ Fault: { Error: [{ code, Message: 'No' }] } }),
    })
    await spoil(
      { match: '^POST .*invoice', ...fault('6000') },
      { match: '^POST .*invoice', times: -1, ...fault('6210') },
    )
    await dev.api('PATCH', '/orders/1', { description: 'x' })
    const made = await dev.api('POST', '/orders', { title: 'T', client_id: 1 })
    const orderId: number = made.body.project.id
    const statuses = async () => {
      const read = await Promise.all([1, orderId].map((id) => dev.api('GET', `/orders/${id}`)))
      return read.map(({ body }) => body.accounting.status).sort()
    }
    await expect.poll(statuses, { timeout: 20_000 }).toEqual(['dead', 'parked'])

    const all = await accountingCommand('list', '--state', state)
    expect(all).toMatchObject({ code: 0, stderr: '' })
    expect(all.stdout).toMatch(
      /^ID +COMPANY +ORDER +CHANGE +STATE +TRIES +NEXT TRY +LAST ERROR\n1 +1 +1 +create +dead +1 +- +.*6000/,
    )
    expect(all.stdout.split('\n')).toHaveLength(4)
    const dead = await accountingCommand('list', '--state', 'dead', '--state', state)
    expect(dead.stdout).toContain('6000')
    expect(dead.stdout).not.toContain('6210')
    expect((await accountingCommand('list', '--state=pending', '--state', state)).stdout).toBe('No notices.\n')
    expect((await accountingCommand('list', '--company', '9', '--state', state)).stdout).toBe('No notices.\n')

    await spoil()
    expect(await accountingCommand('retry', '--dead', '--state', state)).toEqual({
      code: 0,
      stderr: '',
      stdout: '1 dead notice is sent again at once.\n',
    })
    await expect.poll(statuses, { timeout: 5_000 }).toEqual(['parked', 'synced'])
    const again = await accountingCommand('retry', '2', '--state', state)
    expect(again.stdout).toBe(`Notice 2 (order ${orderId} of company 1) is sent again at once.\n`)
    await expect.poll(statuses, { timeout: 5_000 }).toEqual(['synced', 'synced'])
    expect(Object.keys((await look()).state.realms[REALM]?.invoices ?? {})).toHaveLength(2)
    expect(await accountingCommand('retry', '--dead', '--state', state)).toMatchObject({ stdout: 'No dead notices.\n' })
  })

  it.each([
    [['list', 'x']],
    [['list', '--dead']],
    [['list', '--state', 'ded']],
    [['retry']],
    [['retry', '0']],
    [['retry', '1', '--dead']],
    [['retry', '1', '--state', 'dead']],
    [['send', '1']],
    [[]],
  ])('answers %j with one line and changes nothing', async (args) => {
    const state = await freshState()
    const outcome = await accountingCommand(...args, ...(args.includes('ded') ? [] : ['--state', state]))
    expect(outcome).toMatchObject({ code: 1, stdout: '' })
    expect(outcome.stderr.trim().split('\n')).toHaveLength(1)
  })

  it('tells of a notice that is not there', async () => {
    const outcome = await accountingCommand('retry', '5', '--state', await freshState())
    expect(outcome).toEqual({ code: 1, stdout: '', stderr: 'There is no notice 5.\n' })
  })
})
