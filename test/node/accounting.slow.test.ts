import { describe, expect, it, onTestFinished } from 'vitest'
import { credentialsFor, startAccounting } from '../../src/simulators/accounting.ts'
import { look, spoil } from '../../src/simulators/steer.ts'
import { smallShop } from '../support/small-shop.ts'
import { expectRefused, freshState, outputOf, runCommand, runSql, servedState, writeSeed } from './cli-support.ts'
import { ask, type DevServer, serveState } from './dev-server.ts'
import { chooseFreePort } from './servers.ts'

const REALM = '7007'

interface RemoteAccount {
  realms: Record<string, { invoices: object; changes: { operation: string }[]; misused: string[] }>
}

/** A shop in a state directory of its own, whose accounting system runs in this process: it outlives every kill. */
async function openShop() {
  const accounting = await startAccounting()
  onTestFinished(accounting.close)
  const remote = `${accounting.url}/t/books`
  const shop = smallShop()
  const path = await writeSeed({
    ...shop,
    company: { id: 1, name: 'Shop', accounting_sync_enabled: true },
    integrations: { accounting_sync: { base_url: remote, credentials: { ...credentialsFor(REALM) } } },
  })
  const state = await freshState()
  await outputOf('seed', path, '--state', state)
  const waitForCall = async (pattern: RegExp) => {
    const { length } = (await look(remote)).calls
    const called = async () => (await look(remote)).calls.slice(length).some((call) => pattern.test(call.path))
    return () => expect.poll(called, { timeout: 120_000 }).toBe(true)
  }
  return { state, remote, waitForCall }
}

/** Runs the scheduled handler, which `dev` runs every minute, all the time. */
async function waitUntilSynced(dev: DevServer, orderId: number): Promise<void> {
  const read = async () => {
    await (await fetch(`${dev.url}/cdn-cgi/local/scheduled`, { signal: AbortSignal.timeout(5_000) })).body?.cancel()
    return (await ask(dev, 'GET', `/orders/${orderId}`)).body.accounting?.status
  }
  // It may be being restarted.
  await expect.poll(() => read().catch(String), { timeout: 120_000, interval: 500 }).toBe('synced')
}

describe('accounting events of a service that is killed', () => {
  it('are delivered after the restart, once', async () => {
    const { state, remote, waitForCall } = await openShop()
    const port = await chooseFreePort()
    let dev = await serveState(state, port)

    // Killed after the commit, while the first call, for a token, hangs.
    await spoil(remote, { match: '^POST /oauth2', hold: true })
    let called = await waitForCall(/oauth2/)
    expect((await ask(dev, 'PATCH', '/orders/1', { description: 'first' })).status).toBe(200)
    await called()
    dev.killWorker()
    await waitUntilSynced(dev, 1)

    // Killed during the delivery, which is applied while its response is lost.
    await spoil(remote, { match: '^POST .*invoice', apply: true, hold: true, destroy: true })
    called = await waitForCall(/invoice\?/)
    expect((await ask(dev, 'PATCH', '/orders/1', { description: 'second' })).status).toBe(200)
    await called()
    dev.killWorker()
    await spoil(remote)
    await waitUntilSynced(dev, 1)

    // All processes killed at once, and a new start.
    await spoil(remote, { match: '^POST .*invoice', hold: true })
    called = await waitForCall(/invoice\?/)
    expect((await ask(dev, 'PATCH', '/orders/1', { description: 'third' })).status).toBe(200)
    await called()
    await dev.kill()
    dev = await serveState(state, port)
    await waitUntilSynced(dev, 1)

    const { invoices, changes, misused } = (await look<RemoteAccount>(remote)).state.realms[REALM] ?? {}
    expect(Object.values(invoices ?? {})).toMatchObject([{ DocNumber: '1001', PrivateNote: 'third', TotalAmt: 109.87 }])
    expect(changes?.map((change) => change.operation)).toEqual(['customer', 'create', 'update', 'update'])
    expect(misused).toEqual([])
    expect(runSql(state, "SELECT count(*) AS n FROM accounting_outbox WHERE state <> 'done'")).toEqual([{ n: 0 }])
  })
})

describe('npm run accounting', () => {
  it('lists undelivered events and retries them', async () => {
    const { state, remote } = await openShop()
    const dev = await serveState(state)
    const fault = (code: string) => ({
      status: 400,
      body: JSON.stringify({ Fault: { Error: [{ code, Message: 'No' }] } }),
    })
    await spoil(
      remote,
      { match: '^POST .*invoice', ...fault('6000') },
      { match: '^POST .*invoice', times: -1, ...fault('6210') },
    )
    await ask(dev, 'PATCH', '/orders/1', { description: 'x' })
    const made = await ask(dev, 'POST', '/orders', { title: 'T', client_id: 1 })
    const orderId: number = made.body.project.id
    const statuses = async () => {
      const read = await Promise.all([1, orderId].map((id) => ask(dev, 'GET', `/orders/${id}`)))
      return read.map(({ body }) => body.accounting.status).sort()
    }
    await expect.poll(statuses, { timeout: 20_000 }).toEqual(['dead', 'parked'])

    const run = (...args: string[]) => outputOf('accounting', ...args, '--state', state)
    const all = await run('list')
    expect(all).toMatch(
      /^ID +COMPANY +ORDER +CHANGE +STATE +TRIES +NEXT TRY +LAST ERROR\n1 +1 +1 +create +dead +1 +- +.*6000/,
    )
    expect(all.split('\n')).toHaveLength(4)
    const dead = await run('list', '--state', 'dead')
    expect(dead).toContain('6000')
    expect(dead).not.toContain('6210')
    expect(await run('list', '--state=pending')).toBe('No events.\n')
    await outputOf('companies', 'create', '9', '--state', state)
    expect(await run('list', '--company', '9')).toBe('No events.\n')

    await spoil(remote)
    expect(await run('retry', '--dead')).toBe('1 dead event is sent again at once if the company is active.\n')
    await expect.poll(statuses, { timeout: 20_000 }).toEqual(['parked', 'synced'])
    expect(await run('retry', '2')).toBe(
      `Event 2 (order ${orderId} of company 1) is sent again at once if the company is active.\n`,
    )
    await expect.poll(statuses, { timeout: 20_000 }).toEqual(['synced', 'synced'])
    expect(Object.keys((await look<RemoteAccount>(remote)).state.realms[REALM]?.invoices ?? {})).toHaveLength(2)
    expect(await run('retry', '--dead')).toBe('No dead events.\n')
  })

  it('rejects an invalid command with a one-line error', async () => {
    const link = ['link-customer', '1', '58']
    const id = "CUSTOMER_ID must be 1 to 64 letters, digits, _ or -, not '"
    await expectRefused('accounting', await freshState(), [
      [['list', '--dead'], "Unknown option '--dead'"],
      [['list', '--company'], "Option '--company' requires a value"],
      [['retry', '0'], 'must be a positive integer'],
      [['retry', '1', '--dead'], "Options 'ID' and '--dead' cannot be used together."],
      [['link-customer', '0', '58'], 'CLIENT_ID must be a positive integer'],
      [['link-customer', '1', '5 8'], `${id}5 8'`],
      [['link-customer', '1', 'x'.repeat(65)], id],
      [[...link, '--dead'], "Unknown option '--dead'"],
      [[...link, '--company', 'x'], '--company must be a positive integer'],
      [[...link, '--remote'], "Option '--remote' requires a value"],
      [link, 'There is no company.'],
      [['list', '--company', '9'], 'There is no company 9.'],
      [['retry', '--dead', '--company', '9'], 'There is no company 9.'],
      [['retry', '5'], 'There is no undelivered event 5.'],
    ])
  })

  it('links a client to a customer and sends its parked and dead events again', async () => {
    // Without --company there must be one company only.
    const state = await servedState(await freshState())
    await runCommand('seed', await writeSeed(smallShop()), '--state', state)
    runSql(
      state,
      `INSERT INTO accounting_outbox (company_id, order_id, operation, state, attempts, next_attempt_at, created_at, updated_at)
       VALUES (1, 1, 'create', 'parked', 3, 0, 0, 0), (1, 1, 'update', 'dead', 3, 0, 0, 0), (1, 2, 'create', 'dead', 3, 0, 0, 0)`,
    )
    const link = (...args: string[]) => runCommand('accounting', 'link-customer', ...args, '--state', state)
    expect(await link('1', '58')).toEqual({
      code: 0,
      stderr: '',
      stdout: `Client 1 (Ünïon; -- "Tees" 'n' more?) of company 1 is linked to customer 58. 2 events are sent again at once if the company is active.\n`,
    })
    expect((await link('1', '59', '--company', '1')).stdout).toMatch(/is linked to customer 59\.\n$/)

    await runCommand('seed', await writeSeed(smallShop(2)), '--state', state)
    for (const [args, message] of [
      [['1', '60'], 'There are several companies: say which one with --company ID.'],
      [['1', '60', '--company', '3'], 'There is no company 3.'],
      [['9', '60', '--company', '2'], 'Client not found.'],
      [['1', '6:0', '--company', '1'], "CUSTOMER_ID must be 1 to 64 letters, digits, _ or -, not '6:0'."],
    ] as const) {
      expect(await link(...args)).toEqual({ code: 1, stdout: '', stderr: `${message}\n` })
    }
    expect(runSql(state, 'SELECT accounting_customer_id FROM clients WHERE accounting_customer_linked = 1')).toEqual([
      { accounting_customer_id: '59' },
    ])
  })
})
