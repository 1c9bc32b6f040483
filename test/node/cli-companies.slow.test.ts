import { existsSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { expectRefused, freshState, outputOf, runCommand, runSql, stateWithShop } from './cli-support.ts'

describe('npm run companies', () => {
  it('shows, suspends and resumes a company', async () => {
    const state = await stateWithShop()
    const run = (...args: string[]) => outputOf('companies', ...args, '--state', state)
    const row = (at: string) =>
      new RegExp(`^ID +NAME +DATABASE +STATE +CLIENTS +ORDERS\n7 +Shop 7 +DB +${at} +1 +2\n9 .*\n\nDATABASE `)
    expect(await run('list')).toMatch(row('active'))
    expect(await run('suspend', '7')).toBe(
      'Company 7 (Shop 7) is suspended: its tokens are refused within 30 seconds.\n',
    )
    runSql(state, 'UPDATE companies SET deliveries_paused = 1 WHERE id = 7')
    expect(await run('list')).toMatch(row('suspended, deliveries paused'))
    expect(await run('show', '7')).toMatch(/^suspended +true$/m)
    expect(await run('resume', '7')).toContain('Company 7 (Shop 7) is active')
    expect(await run('resume-deliveries')).toBe(
      'Company 7 (Shop 7): waiting events are delivered at once if the company is active.\n',
    )
    expect(await run('resume-deliveries')).toBe('No company is paused.\n')
    expect(runSql(state, 'SELECT suspended, deliveries_paused FROM companies WHERE id = 7')).toEqual([
      { suspended: 0, deliveries_paused: 0 },
    ])
    const usage = (await run('usage', '7', '--hours', '2')).trimEnd().split('\n')
    expect(usage[0]).toMatch(/^HOUR +REQUESTS +REFUSED +DATABASE MS$/)
    expect(usage).toHaveLength(4)
    expect(usage[3]).toMatch(/^total +0 +0 +0$/)
  })

  it('leaves deliveries to the service where none runs', async () => {
    const state = await stateWithShop(await freshState())
    expect(await outputOf('companies', 'resume-deliveries', '7', '--state', state)).toBe(
      "Company 7 (Shop 7): waiting events are delivered when 'npm run dev' runs on this data.\n",
    )
  })

  it('adds and removes the people who administer a company', async () => {
    const state = await stateWithShop()
    const run = (...args: string[]) => outputOf('companies', ...args, '--state', state)
    expect(await run('members', '7')).toBe('No members.\n')
    const add = (email: string, role: string) => run('add-member', '7', email, '--role', role)
    expect(await add('Ada@Shop.example', 'owner')).toBe('ada@shop.example is an owner of company 7.\n')
    expect(await add('ben@shop.example', 'developer')).toBe('ben@shop.example is a developer of company 7.\n')
    expect(await run('members', '7')).toMatch(
      /^EMAIL .*\nada@shop\.example +owner .*\nben@shop\.example +developer .*\n$/,
    )
    expect(await run('remove-member', '7', 'ben@shop.example')).toBe(
      'ben@shop.example is no longer a member of company 7.\n',
    )
    expect(runSql(state, 'SELECT email FROM members')).toEqual([{ email: 'ada@shop.example' }])
  })

  it('exports all data of a company, to a new file that only its user may read', async () => {
    const state = await stateWithShop()
    const path = join(state, 'export.json')
    const exported = await outputOf('companies', 'export', '7', '--state', state)
    const lines = exported.trimEnd().split('\n')
    const types = lines.map((line): string => JSON.parse(line).type)
    expect([types[0], types.at(-1)]).toEqual(['company', 'end'])
    expect(types.filter((type) => type === 'clients')).toHaveLength(2)

    const written = ['companies', 'export', '7', '--output', path, '--state', state] as const
    expect(await outputOf(...written)).toBe('')
    expect(readFileSync(path, 'utf8')).toBe(exported)
    expect(statSync(path).mode & 0o777).toBe(0o600)
    expect(await runCommand(...written)).toMatchObject({ code: 1, stderr: `--output '${path}' exists.\n` })
  })

  it('recovers a deployment after its database was restored', async () => {
    const state = await stateWithShop()
    const run = (...args: string[]) => outputOf('companies', ...args, '--state', state)
    expect((await runCommand('companies', 'recover', '--state', state)).stdout).toBe(
      `Company 7: orders go on after 2, invoices after number 1001.
Company 9: orders go on after 100, invoices after number 1000.
Recovered: 2. Tokens revoked again: 0. Companies whose deliveries this paused: 2.
When all is right: npm run companies -- resume-deliveries --state ${state}\n`,
    )
    expect(await run('backups', '7')).toBe('No backups.\n')
    expect(await run('resume-deliveries')).toMatch(
      /^Company 7 \(Shop 7\): waiting events are delivered at once .*\.\nCompany 9 .*: waiting events are delivered at once .*\.\n$/,
    )
  })

  it('rejects an invalid command with a one-line error and changes nothing', async () => {
    const state = await stateWithShop()
    const output = join(state, 'never.json')
    const cases: [args: string[], message: string][] = [
      [[], 'Usage: npm run companies -- list | show | suspend'],
      [['show'], 'Missing argument'],
      [['show', 'x'], "ID must be a positive integer, not 'x'."],
      [['show', '8'], 'There is no company 8.'],
      [['usage', '7', '--hours', '25'], "--hours must be between 1 and 24, not '25'."],
      [['add-member', '7', 'ada@shop.example'], "Option '--role' is required"],
      [['add-member', '7', 'ada@shop.example', '--role', 'boss'], '--role must be one of '],
      [
        ['add-member', '7', 'ada', '--role', 'owner'],
        "EMAIL must be an email address such as ada@example.com, not 'ada'.",
      ],
      [['remove-member', '7', 'eve@shop.example'], 'Member not found.'],
      [['export', '8', '--output', output], 'There is no company 8.'],
      [['export', '7', '--output', `${output}/x`], `--output '${output}/x' cannot be written (ENOENT).`],
      [['restore', '7'], "Option '--from' is required"],
      [['restore', '7', '--from', 'yesterday'], '--from must be a date or a time, such as'],
    ]
    await expectRefused('companies', state, cases)
    expect(existsSync(output)).toBe(false)
  })
})
