import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { expectRefused, runHere, runSql, runSqlOfKv, stateWithShop } from './cli-support.ts'

describe('npm run tokens', () => {
  it('creates, lists, rotates and revokes a token that is shown once, and rejects what is invalid', async () => {
    const state = await stateWithShop()
    const run = (...args: string[]) => runHere('tokens', [...args, '--state', state])
    const permissions = ['--permissions', 'mail:write,mail:read', '--expires', '2099-12-31']
    const created = await run('create', '--company', '7', '--name', 'mail sync', ...permissions)
    expect(created).toMatchObject({ code: 0, stderr: '' })
    expect(created.stdout).toMatch(/^[0-9a-f]{64}\n$/)

    const token = created.stdout.trim()
    const hash = createHash('sha256').update(token).digest('hex')
    expect(runSql(state, 'SELECT * FROM api_tokens')).toMatchObject([
      {
        company_id: 7,
        token_hash: hash,
        name: 'mail sync',
        permissions: '["mail:read","mail:write"]',
        expires_at: Date.UTC(2100, 0, 1),
        revoked_at: null,
      },
    ])

    const listed = await run('list', '--company', '7')
    expect(listed.stdout).toMatch(/^1 +7 +mail sync +active .* mail:read,mail:write$/m)
    expect(listed.stdout).not.toMatch(new RegExp(`${token}|${hash}`))
    expect(listed.stdout).toMatch(/\n1 of at most 50 active tokens\.\n$/)
    expect((await run('list', '--company', '9')).stdout).toMatch(/^ID .*\n0 of at most 50 active tokens\.\n$/)

    const rotated = await run('rotate', '1', '--overlap', '15m')
    expect(rotated).toMatchObject({ code: 0, stderr: '', stdout: expect.stringMatching(/^[0-9a-f]{64}\n$/) })
    const ends =
      "SELECT id, name, permissions, expires_at - unixepoch('subsec') * 1000 AS ms FROM api_tokens ORDER BY id"
    const [old, successor] = runSql(state, ends)
    expect(old?.ms).toBeLessThanOrEqual(15 * 60_000)
    expect(successor).toMatchObject({ id: 2, name: 'mail sync', permissions: '["mail:read","mail:write"]' })
    await run('rotate', '2')
    expect(runSql(state, ends)[1]?.ms).toBeCloseTo(24 * 3_600_000, -5)

    expect(await run('revoke', '1')).toEqual({ code: 0, stderr: '', stdout: 'Revoked token 1 (mail sync).\n' })
    // The first revocation may have been interrupted before it was kept for a recovery.
    const kept = { key: `revoked/${hash}` }
    expect(runSqlOfKv(state, 'DELETE FROM _mf_entries RETURNING key')).toContainEqual(kept)
    expect((await run('revoke', '1')).stdout).toContain('was revoked at')
    expect(runSqlOfKv(state, 'SELECT key FROM _mf_entries')).toEqual([kept])
    expect(runSql(state, 'SELECT id FROM api_tokens WHERE revoked_at > 0')).toEqual([{ id: 1 }])
    expect((await run('list')).stdout).toMatch(/revoked/)

    // An invalid command has a one-line error and changes nothing.
    const before = runSql(state, 'SELECT * FROM api_tokens')
    const absent = join(state, 'absent')
    const create = ['create', '--company', '7', '--name', 'x']
    const cases: [args: string[], message: string][] = [
      [['create', '--company', '7'], "Option '--name' is required"],
      [['create', '--company', '8', '--name', 'x'], 'There is no company 8.'],
      [
        [...create, '--permissions', 'clients:read,clients:burn'],
        '--permissions must be one of clients:read, clients:write',
      ],
      [[...create, '--expires', '2020-01-01'], 'must be in the future'],
      [
        [...create, '--expires', '2099-02-30'],
        "must be a date (2027-01-31) or a date-time with an offset, not '2099-02-30'",
      ],
      [[...create, '--colour', 'red'], "Unknown option '--colour'"],
      [['list', '--name', 'x'], "Unknown option '--name'. Usage: npm run tokens -- list"],
      [['list', '--company', '8'], 'There is no company 8.'],
      [['revoke', '99'], 'There is no token 99.'],
      [['revoke', '1', '2'], "Unexpected argument '2'"],
      [['rotate', '99'], 'There is no token 99.'],
      [['rotate', '1', '--overlap', '8d'], "--overlap must be at most 7d, not '8d'."],
      [['rotate', '1', '--overlap', '7'], "--overlap must be a time such as 15m, 24h or 7d, not '7'."],
      [[...create, '--state', absent], `--state: there is no directory '${absent}'.`],
    ]
    await expectRefused('tokens', state, cases)
    expect(runSql(state, 'SELECT * FROM api_tokens')).toEqual(before)
    expect(existsSync(absent)).toBe(false)
  })
})
