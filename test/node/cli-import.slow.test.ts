import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { createRandom } from '../support/random.ts'
import { freshState, outputOf, runCommand, runHere, runSql, servedState, writeSeed } from './cli-support.ts'
import { serveState } from './dev-server.ts'
import { startCommand } from './servers.ts'

const THREADS = 40
const THREAD_BYTES = 500_000
const KILLS = 5
const numbers = (count: number) => Array.from({ length: count }, (_, index) => index + 1)

async function load(state: string, id: number, name: string, rows: number): Promise<void> {
  const path = await writeSeed({
    company: { id, name, currency: 'EUR' },
    taxes: [{ id: 1, name: 'State', rate: 8.2501 }],
    clients: numbers(rows).map((id) => ({ id, company_name: `Club ${id} \u2028 "é😀` })),
    orders: numbers(rows).map((id) => ({
      id,
      title: `Order ${id}`,
      client_id: id,
      invoice: { id, tax_id: 1, items: [{ id, title: 'Tee', quantity: 1.25, unit_price: 9.95 }] },
    })),
  })
  await outputOf('seed', path, '--state', state)
}

/** 20 MB of mail, in texts and numbers as they are sent. */
async function sync(url: string, token: string): Promise<void> {
  const random = createRandom(7)
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  for (const number of numbers(THREADS)) {
    const text = Array.from({ length: THREAD_BYTES / 16 }, () =>
      random
        .between(0, 2 ** 48)
        .toString(36)
        .padStart(16),
    ).join('')
    const body = `{"account_email":"box${number % 3}@x.example","subject":"S ${number}","messages":[{"id":1.0,"n":1e3,"text":${JSON.stringify(text)}}]}`
    const response = await fetch(`${url}/api/v1/mail/email-threads/t${number}`, { method: 'PUT', headers, body })
    expect(response.status, await response.text()).toBe(200)
  }
  const context = { client_id: 1, orders_data: [{ id: 1, note: 'n' }], participant_emails: ['a@x.example'] }
  const request = { method: 'PUT', headers, body: JSON.stringify(context) }
  expect((await fetch(`${url}/api/v1/mail/threads/t1`, request)).status).toBe(200)
}

const exportTo = (state: string, path: string) =>
  outputOf('companies', 'export', '2', '--output', path, '--state', state)

it('an import of an export, killed at five points, is exported again as the same bytes', {
  timeout: 600_000,
}, async () => {
  const source = await freshState()
  await load(source, 1, 'Look-alike', 50)
  await load(source, 2, 'Harbor', 1_500)
  const token = await outputOf('tokens', 'create', '--company', '2', '--name', 'mail', '--state', source)
  const server = await serveState(source)
  await sync(server.url, token.trim())
  const first = join(source, 'first.ndjson')
  await exportTo(source, first)
  await server.stop()
  expect(readFileSync(first).byteLength).toBeGreaterThan(20_000_000)

  const destination = await freshState()
  await load(destination, 1, 'Look-alike', 50)
  await servedState(destination)
  const random = createRandom(11)
  for (const _ of numbers(KILLS)) {
    const { child, ended } = startCommand('companies', ['import', '2', first, '--state', destination])
    const timer = setTimeout(() => child.kill('SIGKILL'), random.between(1_000, 4_000))
    if (child.exitCode === null) await once(child, 'exit')
    clearTimeout(timer)
    await ended
  }
  const outcome = await runCommand('companies', 'import', '2', first, '--state', destination)
  expect(outcome, outcome.stderr).toMatchObject({ code: 0, stderr: '' })
  expect(outcome.stdout).toContain(`Email threads: ${THREADS}`)
  const second = join(destination, 'second.ndjson')
  await exportTo(destination, second)
  expect(readFileSync(second).equals(readFileSync(first))).toBe(true)
  expect(runSql(destination, 'SELECT count(*) AS n FROM email_threads WHERE company_id = 2')).toEqual([{ n: THREADS }])

  runSql(destination, "UPDATE clients SET company_name = 'Renamed' WHERE company_id = 2 AND id = 1")
  const differing = await runCommand('companies', 'import', '2', first, '--state', destination)
  expect(differing.code).toBe(1)
  expect(differing.stderr).toContain('client 1 already exists and differs: company_name')
  const other = join(destination, 'other.ndjson')
  for (const text of [readFileSync(first, 'utf8').trimEnd().split('\n').slice(0, -1).join('\n'), 'no lines', '{}']) {
    writeFileSync(other, text)
    expect((await runCommand('companies', 'import', '4', other, '--state', destination)).code).toBe(1)
  }
})

describe('an import that is repeated after it was complete', () => {
  it.each([
    ['one part', 3],
    ['several parts', 1_200],
  ])('loads missing mail and leaves as they are a tax and a suspension of since then: %s', async (_, clients) => {
    const state = await servedState()
    const run = async (...args: ['seed' | 'companies', ...string[]]) => {
      const [name, ...others] = args
      const { code, stderr } = await runHere(name, [...others, '--state', state])
      expect([code, stderr], args.join(' ')).toEqual([0, ''])
    }
    const at = '2026-01-31T10:00:00.000Z'
    const thread = { account_email: 'a@x.example', legacy_thread_id: 't', messages: [] }
    const versions = { id: crypto.randomUUID(), deleted: false, revision: 1, content_revision: 1 }
    const lines = [
      { type: 'company', data: { id: 7, name: 'Harbor', suspended: false } },
      ...numbers(clients).map((id) => ({ type: 'clients', data: { id, company_name: `Club ${id}` } })),
      { type: 'taxes', data: { id: 1, name: 'State', rate: 8 } },
      { type: 'email_threads', data: { last_synced_at: at, created_at: at, updated_at: at, ...thread, ...versions } },
      { type: 'end', data: {} },
    ]
    const file = await writeSeed(lines.map((line) => JSON.stringify(line)).join('\n'))
    await run('companies', 'create', '12')
    await run('companies', 'suspend', '12')
    await run('companies', 'import', '12', file)
    const suspended = () => runSql(state, 'SELECT suspended FROM companies WHERE id = 12')
    expect(suspended()).toEqual([{ suspended: 1 }])

    await run('companies', 'resume', '12')
    const tax = { id: 1, name: 'State', rate: 9.5 }
    await run('seed', await writeSeed({ company: { id: 12, name: 'Harbor' }, taxes: [tax] }))
    await run('companies', 'suspend', '12')
    runSql(state, 'DELETE FROM email_threads WHERE company_id = 12')
    const taxes = () => runSql(state, 'SELECT * FROM taxes WHERE company_id = 12')
    const before = taxes()
    await run('companies', 'import', '12', file)
    expect([suspended(), taxes()]).toEqual([[{ suspended: 1 }], before])
    expect(runSql(state, 'SELECT legacy_thread_id FROM email_threads WHERE company_id = 12')).toHaveLength(1)
  })
})
