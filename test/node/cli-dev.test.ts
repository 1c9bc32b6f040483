import { once } from 'node:events'
import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import { decryptCredentials } from '../../src/auth/credentials.ts'
import { readCredentialsKey } from '../../src/cli/secrets.ts'
import { freshState, runCommand, runSql, smallShop, startCommand, writeSeed } from './cli-support.ts'

const READY_MS = 60_000

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  return typeof address === 'object' && address ? address.port : 0
}

/** Starts `dev` and waits for its address and token. */
async function startDev(state: string, port: number) {
  const dev = startCommand('dev', ['--port', String(port), '--state', state])
  onTestFinished(() => {
    dev.child.kill('SIGTERM')
  })
  const end = Date.now() + READY_MS
  while (!dev.outcome.stdout.includes('curl') && dev.child.exitCode === null && Date.now() < end) await sleep(50)
  const [, token = ''] = /Token +([0-9a-f]{64})/.exec(dev.outcome.stdout) ?? []
  expect(token, dev.outcome.stderr).not.toBe('')
  return { ...dev, token, url: `http://127.0.0.1:${port}/api/v1` }
}

function ask(url: string, token: string, method = 'GET', body?: object): Promise<Response> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  return fetch(url, { method, headers, ...(body && { body: JSON.stringify(body) }) })
}

describe('npm run dev', () => {
  it('serves a sample shop, lets the other commands work beside it, and keeps the data', {
    timeout: 120_000,
  }, async () => {
    const state = await freshState()
    const port = await freePort()
    const dev = await startDev(state, port)
    expect(dev.outcome.stdout).toContain(`curl -H 'Authorization: Bearer ${dev.token}' '${dev.url}/clients?per_page=3'`)
    const list = await ask(`${dev.url}/clients?per_page=3`, dev.token)
    expect(list.status).toBe(200)
    expect(await list.json()).toMatchObject({ pagination: { total: 60 } })

    // The sample company reaches simulators of this very run.
    const [stored] = runSql(state, "SELECT * FROM integrations WHERE kind = 'supplier_b'")
    expect(stored).toMatchObject({ base_url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/), enabled: 1 })
    const key = readCredentialsKey({ state }) ?? ''
    const secret = await decryptCredentials(key, 1, 'supplier_b', String(stored?.credentials))
    expect(secret).toHaveProperty('api_key')

    // Requests go on all the while that other commands write.
    const statuses: number[] = []
    let isBusy = true
    const requests = (async () => {
      for (let at = 0; isBusy; at++) {
        const isWrite = at % 2 === 0
        const response = isWrite
          ? await ask(`${dev.url}/clients`, dev.token, 'POST', { company_name: `Customer ${at}` })
          : await ask(`${dev.url}/orders`, dev.token)
        await response.body?.cancel()
        statuses.push(response.status)
        await sleep(200)
      }
    })()
    const path = await writeSeed(smallShop(5))
    const [seeded, seededAgain] = await Promise.all([
      runCommand('seed', path, '--state', state),
      runCommand('seed', await writeSeed(smallShop(6)), '--state', state),
    ])
    expect([seeded, seededAgain]).toMatchObject([
      { code: 0, stderr: '' },
      { code: 0, stderr: '' },
    ])
    const created = await runCommand('tokens', 'create', '--company', '5', '--name', 'beside', '--state', state)
    const token = created.stdout.trim()
    isBusy = false
    await requests
    expect(statuses.length).toBeGreaterThan(3)
    expect(new Set(statuses)).toEqual(new Set([200]))

    // What they wrote is there at once.
    const order = await ask(`${dev.url}/orders/1`, token)
    expect(order.status).toBe(200)
    expect(await order.json()).toMatchObject({
      project: { title: 'Shirts' },
      invoice: { subtotal: 114, amount_paid: 50 },
    })
    const unused = await runCommand('tokens', 'create', '--company', '5', '--name', 'unused', '--state', state)
    const [row] = runSql(state, "SELECT id FROM api_tokens WHERE name = 'unused'")
    await runCommand('tokens', 'revoke', String(row?.id), '--state', state)
    expect((await ask(`${dev.url}/clients`, unused.stdout.trim())).status).toBe(401)

    // Nobody else may serve on this port, or from these files.
    const [samePort, sameState] = await Promise.all([
      startCommand('dev', ['--port', String(port)]).ended,
      startCommand('dev', ['--port', String(await freePort()), '--state', state]).ended,
    ])
    expect(samePort).toEqual({ code: 1, stdout: '', stderr: `Port ${port} is in use: choose another with --port N.\n` })
    expect(sameState).toMatchObject({ code: 1, stdout: '' })
    expect(sameState.stderr).toMatch(/^http:\S+ serves this data already: choose another place with --state DIR\.\n$/)

    dev.child.kill('SIGTERM')
    expect((await dev.ended).code).toBe(0)
    await expect(fetch(dev.url)).rejects.toThrow()

    const again = await startDev(state, port)
    expect(again.token).not.toBe(dev.token)
    expect((await ask(`${again.url}/orders/1`, token)).status).toBe(200)
    expect((await ask(`${again.url}/clients`, dev.token)).status).toBe(200)
    again.child.kill('SIGINT')
    expect((await again.ended).code).toBe(0)
  })

  it.each([
    [['--port', '0'], "--port must be a whole number from 1 to 65535, not '0'."],
    [['--port', 'http'], '--port must be'],
    [['--prot', '1'], "Unknown option '--prot'. Usage: npm run dev"],
    [['serve'], "Unexpected argument 'serve'"],
  ])('refuses %j', async (args, message) => {
    const outcome = await startCommand('dev', args).ended
    expect(outcome).toMatchObject({ code: 1, stdout: '' })
    expect(outcome.stderr).toContain(message)
    expect(outcome.stderr.trimEnd().split('\n')).toHaveLength(1)
  })
})
