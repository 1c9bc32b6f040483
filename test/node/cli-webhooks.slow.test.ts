import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { readDevVars } from '../../src/cli/local-runtime.ts'
import { openSecrets } from '../../src/delivery/webhooks/message.ts'
import { type Simulator, startSimulator } from '../../src/simulators/kit.ts'
import { expectRefused, runCommand, runSql, stateWithShop } from './cli-support.ts'

const ADDRESSES: Record<string, string> = { 'hooks.example': '1.1.1.1', 'inside.example': '10.0.0.1' }

let resolver: Simulator

beforeAll(async () => {
  resolver = await startSimulator(
    () => null,
    ({ path }) => {
      const { searchParams } = new URL(path, 'http://x.example')
      const data = searchParams.get('type') === 'A' ? ADDRESSES[searchParams.get('name') ?? ''] : undefined
      return { status: 200, body: JSON.stringify({ Status: 0, Answer: data ? [{ type: 1, data }] : [] }) }
    },
  )
})
afterAll(() => resolver.close())
// Also for the service that the commands use.
beforeEach(() => void vi.stubEnv('WEBHOOK_RESOLVER', `${resolver.url}/dns-query`))
afterEach(() => void vi.unstubAllEnvs())

function run(state: string, ...args: string[]) {
  return runCommand('webhooks', ...args, '--state', state)
}

async function create(state: string, ...options: string[]) {
  const { stdout, stderr } = await run(state, 'create', '--company', '7', ...options)
  const [, id = '', secret = ''] = /^Id {6}(we_[0-9a-f]{18})\nSecret {2}(whsec_[\w+/]{43}=)\n$/.exec(stdout) ?? []
  if (!id) throw new Error(`No endpoint: ${stdout}${stderr}`)
  return { id, secret }
}

async function secretsOf(state: string, id: string) {
  const [row] = runSql(state, 'SELECT secret FROM webhook_endpoints WHERE id = ?', id)
  return openSecrets(readDevVars().CREDENTIALS_KEY ?? '', 7, id, String(row?.secret))
}

describe('npm run webhooks', () => {
  it('creates an endpoint for what changes from now on, shows its secret once and stores it encrypted', async () => {
    const state = await stateWithShop()
    const { id, secret } = await create(state, '--url', 'https://hooks.example/a?b=c', '--events', 'order.created')
    const [company] = runSql(state, 'SELECT last_change FROM companies WHERE id = 7')
    expect(runSql(state, 'SELECT * FROM webhook_endpoints')).toMatchObject([
      {
        company_id: 7,
        id,
        url: 'https://hooks.example/a?b=c',
        event_types: '["order.created"]',
        enabled: 1,
        position: company?.last_change,
      },
    ])
    expect(await secretsOf(state, id)).toEqual({ secret })
    const listed = (await run(state, 'list', '--company', '7')).stdout
    expect(listed).toMatch(new RegExp(`^${id} +7 +enabled +0 .*https://hooks.example/a\\?b=c +order.created +-$`, 'm'))
    expect(listed).not.toContain(secret)
    expect((await run(state, 'list', '--company', '8')).stdout).toBe('No endpoints.\n')

    const rotated = (await run(state, 'rotate-secret', id)).stdout
    const [, newSecret] = /^Secret {2}(whsec_\S+)\n$/.exec(rotated) ?? []
    expect(newSecret).not.toBe(secret)
    expect(await secretsOf(state, id)).toMatchObject({ secret: newSecret, previous: { secret } })
  })

  it('disables, enables and changes an endpoint; what failed is tried again', async () => {
    const state = await stateWithShop()
    const { id } = await create(state, '--url', 'http://127.0.0.1:9/hook')
    runSql(
      state,
      `INSERT INTO webhook_deliveries VALUES (7, '${id}', 'clients', '1', 1, 9, 5, 4000000000000, 'HTTP 500'), (7, '${id}', 'clients', '1', 2, 0, NULL, NULL, NULL)`,
    )
    runSql(state, `UPDATE webhook_endpoints SET enabled = 0, disabled_reason = 'It failed.', position = 2`)
    const deliveries = (await run(state, 'deliveries', id)).stdout.trimEnd().split('\n')
    expect(deliveries[1]).toMatch(/^1 +client\.created +1 +9 .* HTTP 500$/)
    expect(deliveries[2]).toMatch(/^2 .* +0 +waits +-$/)
    expect((await run(state, 'list')).stdout).toMatch(/disabled .* It failed\.$/m)

    const enabled = await run(
      state,
      'update',
      id,
      '--enable',
      '--url',
      'https://hooks.example/',
      '--events',
      'client.created',
    )
    expect(enabled).toMatchObject({ code: 0, stderr: '' })
    expect(runSql(state, 'SELECT url, event_types, enabled, disabled_reason FROM webhook_endpoints')).toEqual([
      { url: 'https://hooks.example/', event_types: '["client.created"]', enabled: 1, disabled_reason: null },
    ])
    const [first, second] = runSql(
      state,
      'SELECT attempts, next_attempt_at AS at FROM webhook_deliveries ORDER BY sequence',
    )
    expect(first).toMatchObject({ attempts: 0 })
    expect(Number(first?.at)).toBeLessThanOrEqual(Date.now())
    expect(second).toEqual({ attempts: 0, at: null })
    await run(state, 'update', id, '--disable')
    // Nothing is delivered to it.
    expect((await run(state, 'update', id, '--url', 'https://hooks.example/')).stdout).toBe(`Updated ${id}.\n`)
    expect(runSql(state, 'SELECT enabled, disabled_reason FROM webhook_endpoints')).toEqual([
      { enabled: 0, disabled_reason: null },
    ])
    expect((await run(state, 'delete', id)).stdout).toBe(`Deleted ${id} (https://hooks.example/).\n`)
    expect(runSql(state, 'SELECT id FROM webhook_endpoints')).toEqual([])
    expect(runSql(state, 'SELECT sequence FROM webhook_deliveries')).toEqual([])
  })

  it('says how many changes a disabled endpoint has missed', async () => {
    const state = await stateWithShop()
    const { id } = await create(state, '--url', 'https://hooks.example/')
    runSql(state, 'UPDATE webhook_endpoints SET position = 0, replay_position = NULL, replay_end = NULL')
    runSql(state, 'DELETE FROM changes WHERE sequence <= 2')
    expect((await run(state, 'update', id, '--enable')).stdout).toContain('2 older changes are no longer kept')
  })

  it('replays a span of what was delivered', async () => {
    const state = await stateWithShop()
    const { id } = await create(state, '--url', 'https://hooks.example/')
    runSql(state, "UPDATE changes SET at = unixepoch('2026-01-01') * 1000 + sequence * 86400000")
    runSql(state, 'UPDATE webhook_endpoints SET created_at = 0')
    expect((await run(state, 'replay', id, '--from', '2026-01-03', '--to', '2026-01-04')).code).toBe(0)
    const places = 'SELECT replay_position AS first, replay_end AS last FROM webhook_endpoints'
    expect(runSql(state, places)).toEqual([{ first: 1, last: 3 }])
    const second = await run(state, 'replay', id, '--from', '2026-01-03', '--to', '2026-01-04')
    expect([second.code, second.stderr]).toEqual([1, expect.stringContaining('A replay of the endpoint is under way')])
    runSql(state, 'UPDATE webhook_endpoints SET replay_position = NULL, replay_end = NULL')
    await run(state, 'replay', id, '--from', '2026-01-03T00:00:00Z', '--to', '2026-01-04T00:00:00Z')
    expect(runSql(state, places)).toEqual([{ first: 1, last: 2 }])
    expect((await run(state, 'list')).stdout).toContain('replaying')
    runSql(state, 'UPDATE webhook_endpoints SET position = 0, replay_position = NULL, replay_end = NULL')
    expect((await run(state, 'replay', id, '--from', '2026-01-03', '--to', '2026-01-04')).stderr).toContain('No change')
  })

  it('rejects an invalid command with a one-line error and changes nothing', { timeout: 180_000 }, async () => {
    const state = await stateWithShop()
    const base = ['create', '--company', '7', '--url']
    const id = `we_${'0'.repeat(18)}`
    const cases: [args: string[], message: string][] = [
      [[], 'Usage: npm run webhooks'],
      [['create', '--company', '7'], "Option '--url' is required"],
      [['create', '--url', 'https://hooks.example/'], "Option '--company' is required"],
      [[...base, 'http://hooks.example/'], '--url must be an https address.'],
      [[...base, 'https://inside.example/'], '--url must resolve to public addresses only.'],
      [[...base, 'https://10.0.0.1/'], '--url must resolve to public addresses only.'],
      [[...base, 'https://nowhere.example/'], '--url has a host that does not resolve'],
      [[...base, 'https://hooks.example/', '--events', 'client.burnt'], "'client.burnt' is none of client.created"],
      [['update', id], 'Nothing to change: give an option.'],
      [['update', id, '--enable', '--disable'], "Options '--enable' and '--disable' cannot be used together."],
      [['update', id, '--enable'], `There is no endpoint '${id}'.`],
      [['delete', id], `There is no endpoint '${id}'.`],
      [['replay', id, '--from', '2026-01-01'], "Option '--to' is required"],
      [['replay', id, '--from', '2026-01-02', '--to', '2026-01-01'], '--from must be before --to.'],
      [['replay', id, '--from', 'now', '--to', '2026-01-01'], '--from must be a date (2026-01-31) or a date-time'],
    ]
    await expectRefused('webhooks', state, cases)
    expect(runSql(state, 'SELECT * FROM webhook_endpoints')).toEqual([])
  })

  it('says that an address cannot be checked without a resolver', { timeout: 120_000 }, async () => {
    vi.stubEnv('WEBHOOK_RESOLVER', 'http://127.0.0.1:9/')
    const state = await stateWithShop()
    const { code, stderr } = await run(state, 'create', '--company', '7', '--url', 'https://hooks.example/')
    expect(code).toBe(1)
    expect(stderr).toContain('The address cannot be checked, since the resolver does not respond: retry.\n')
  })
})
