import { beforeEach, describe, expect, it, vi } from 'vitest'
import { expectRefused, outputOf, resolveAllHosts, runCommand, runSql, stateWithShop } from './cli-support.ts'

beforeEach(resolveAllHosts)

const run = (state: string, ...args: string[]) => outputOf('webhooks', ...args, '--state', state)

async function create(state: string, ...options: string[]) {
  const printed = await run(state, 'create', '--company', '7', ...options)
  const [, id = '', secret = ''] = /^Id {6}(we_[0-9a-f]{18})\nSecret {2}(whsec_[\w+/]{43}=)\n$/.exec(printed) ?? []
  if (!id) throw new Error(`No endpoint: ${printed}`)
  return { id, secret }
}

describe('npm run webhooks', () => {
  it('creates an endpoint for what changes from now on, and shows its secret once', async () => {
    const state = await stateWithShop()
    const { id, secret } = await create(state, '--url', 'https://hooks.example/a?b=c', '--events', 'order.created')
    const listed = await run(state, 'list', '--company', '7')
    expect(listed).toMatch(new RegExp(`^${id} +7 +enabled +0 .*https://hooks.example/a\\?b=c +order.created +-$`, 'm'))
    expect(listed).not.toContain(secret)
    expect(await run(state, 'list', '--company', '9')).toBe('No endpoints.\n')

    const rotated = await run(state, 'rotate-secret', id)
    expect(rotated).toMatch(/^Secret {2}whsec_\S+\n$/)
    expect(rotated).not.toContain(secret)
  })

  it('disables, enables and changes an endpoint, and lists what failed', async () => {
    const state = await stateWithShop()
    const { id } = await create(state, '--url', 'http://127.0.0.1:9/hook')
    runSql(
      state,
      `INSERT INTO webhook_deliveries VALUES (7, '${id}', 'clients', '1', 1, 9, 5, 4000000000000, 'HTTP 500'), (7, '${id}', 'clients', '1', 2, 0, NULL, NULL, NULL)`,
    )
    runSql(state, `UPDATE webhook_endpoints SET enabled = 0, disabled_reason = 'It failed.', position = 2`)
    const deliveries = (await run(state, 'deliveries', id)).trimEnd().split('\n')
    expect(deliveries[1]).toMatch(/^1 +client\.created +1 +9 .* HTTP 500$/)
    expect(deliveries[2]).toMatch(/^2 .* +0 +waits +-$/)
    expect(await run(state, 'list')).toMatch(/disabled .* It failed\.$/m)

    await run(state, 'update', id, '--enable', '--url', 'https://hooks.example/', '--events', 'client.created')
    expect(runSql(state, 'SELECT url, event_types, enabled, disabled_reason FROM webhook_endpoints')).toEqual([
      { url: 'https://hooks.example/', event_types: '["client.created"]', enabled: 1, disabled_reason: null },
    ])
    await run(state, 'update', id, '--disable')
    // Nothing is delivered to it.
    expect(await run(state, 'update', id, '--url', 'https://hooks.example/')).toBe(`Updated ${id}.\n`)
    expect(runSql(state, 'SELECT enabled, disabled_reason FROM webhook_endpoints')).toEqual([
      { enabled: 0, disabled_reason: null },
    ])
    expect(await run(state, 'delete', id)).toBe(`Deleted ${id} (https://hooks.example/).\n`)
  })

  it('says how many changes a disabled endpoint has missed', async () => {
    const state = await stateWithShop()
    const { id } = await create(state, '--url', 'https://hooks.example/')
    runSql(state, 'UPDATE webhook_endpoints SET position = 0, replay_position = NULL, replay_end = NULL')
    runSql(state, 'DELETE FROM changes WHERE sequence <= 2')
    expect(await run(state, 'update', id, '--enable')).toContain('2 older changes are no longer kept')
  })

  it('replays a span of what was delivered', async () => {
    const state = await stateWithShop()
    const { id } = await create(state, '--url', 'https://hooks.example/')
    runSql(state, "UPDATE changes SET at = unixepoch('2026-01-01') * 1000 + sequence * 86400000")
    runSql(state, 'UPDATE webhook_endpoints SET created_at = 0')
    const days = ['replay', id, '--from', '2026-01-03', '--to', '2026-01-04']
    await run(state, ...days)
    const places = 'SELECT replay_position AS first, replay_end AS last FROM webhook_endpoints'
    expect(runSql(state, places)).toEqual([{ first: 1, last: 3 }])
    await expectRefused('webhooks', state, [[days, 'A replay of the endpoint is under way']])
    runSql(state, 'UPDATE webhook_endpoints SET replay_position = NULL, replay_end = NULL')
    await run(state, 'replay', id, '--from', '2026-01-03T00:00:00Z', '--to', '2026-01-04T00:00:00Z')
    expect(runSql(state, places)).toEqual([{ first: 1, last: 2 }])
    expect(await run(state, 'list')).toContain('replaying')
    runSql(state, 'UPDATE webhook_endpoints SET position = 0, replay_position = NULL, replay_end = NULL')
    await expectRefused('webhooks', state, [[days, 'No change']])
  })

  it('rejects an invalid command with a one-line error and changes nothing', async () => {
    const state = await stateWithShop()
    const base = ['create', '--company', '7', '--url']
    const id = `we_${'0'.repeat(18)}`
    const cases: [args: string[], message: string][] = [
      [[], 'Usage: npm run webhooks'],
      [['create', '--company', '7'], "Option '--url' is required"],
      [['create', '--url', 'https://hooks.example/'], "Option '--company' is required"],
      [[...base, 'http://hooks.example/'], '--url must be an https address.'],
      [[...base, 'https://10.0.0.1/'], '--url must resolve to public addresses only.'],
      [[...base, 'https://hooks.example/', '--events', 'client.burnt'], '--events must be one of client.created'],
      [['update', id, '--enable', '--disable'], "Options '--enable' and '--disable' cannot be used together."],
      [['list', '--company', '8'], 'There is no company 8.'],
      [['update', id, '--enable'], `There is no endpoint ${id}.`],
      [['delete', id], `There is no endpoint ${id}.`],
      [['replay', id, '--from', '2026-01-01'], "Option '--to' is required"],
      [['replay', id, '--from', 'now', '--to', '2026-01-01'], '--from must be a date (2027-01-31) or a date-time'],
    ]
    await expectRefused('webhooks', state, cases)
    expect(runSql(state, 'SELECT * FROM webhook_endpoints')).toEqual([])

    const { id: own } = await create(state, '--url', 'https://hooks.example/')
    await expectRefused('webhooks', state, [
      [['update', own], 'The command must name at least one field to change.'],
      [['replay', own, '--from', '2026-01-02', '--to', '2026-01-01'], '--to must be after --from.'],
    ])
  })

  it('says that an address cannot be checked without a resolver', async () => {
    vi.stubEnv('WEBHOOK_RESOLVER', 'http://127.0.0.1:9/')
    const state = await stateWithShop()
    const create = ['create', '--company', '7', '--url', 'https://hooks.example/', '--state', state]
    expect(await runCommand('webhooks', ...create)).toMatchObject({
      code: 1,
      stderr: 'The address cannot be checked, since the resolver does not respond: retry.\n',
    })
  })
})
