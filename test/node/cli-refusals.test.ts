import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { readValue } from '../../src/cli/command.ts'
import { readDevVars } from '../../src/cli/local-runtime.ts'
import { time } from '../../src/cli/operator.ts'
import { runHere, serve, temporaryFolder } from './cli-support.ts'
import { startCommand } from './servers.ts'

/** A server whose every response is the same: 200 with this text; and with another one for company 1. */
const serveText = (text: string, company = text) =>
  serve((request, response) => void response.end(/companies\/1$/.test(request.url ?? '') ? company : text))

const COMPANY = JSON.stringify({
  ...{ id: 1, name: 'A "1"', currency: 'USD', database: 'DB', suspended: false, accounting_sync_enabled: false },
  ...{ deliveries_paused: false, client_count: 0, order_count: 0, mail_bytes: 0, mail_quota_bytes: 1 },
  ...{ stored_bytes: 0, storage_quota_bytes: 1 },
  ...{ created_at: '2026-01-01T00:00:00.000Z', updated_at: '2026-01-01T00:00:00.000Z' },
})

const REMOTE = { CRM_ADMIN_TOKEN: 'ab'.repeat(32) }

it('a command whose --remote is another service ends with one line', async () => {
  const url = await serveText('<!doctype html><title>Welcome</title>')
  const stderr = `${url} did not respond as this service does (HTTP 200).\n`
  for (const [name, ...args] of [['tokens', 'list'], ['companies', 'show', '1'], ['rotate-key']] as const) {
    const outcome = await runHere(name, [...args, '--remote', url], REMOTE)
    expect(outcome, name).toEqual({ code: 1, stdout: '', stderr })
  }
})

it('an export whose connection ends early says so', async () => {
  const url = await serve((request, response) => {
    if (request.url?.endsWith('/companies/1')) return void response.end(COMPANY)
    response.write('{"type":"company"}\n{"type', () => request.socket.destroySoon())
  })
  const { ended } = startCommand('companies', ['export', '1', '--remote', url], REMOTE)
  expect(await ended).toMatchObject({ code: 1, stderr: 'The export was cut off: run it again.\n' })
})

describe('a command whose reader has gone', () => {
  const page = { per_page: 100, next_cursor: null, has_more: false }
  const member = { email: 'a@x.example', role: 'owner', created_at: '2026-01-01T00:00:00.000Z' }
  const members = Array.from({ length: 5_000 }, (_, n) => ({ ...member, email: `a${n}@x.example` }))
  const lines = `${JSON.stringify({ type: 'client', data: { text: 'x'.repeat(1_000) } })}\n`.repeat(3_000)

  it.each([
    ['list', ['members', '1'], JSON.stringify({ data: members, pagination: page })],
    ['export', ['export', '1'], lines],
  ])('ends without a message: %s', async (_, args, text) => {
    // An export first asks for the company.
    const url = await serveText(text, COMPANY)
    const { child, outcome, ended } = startCommand('companies', [...args, '--remote', url], REMOTE)
    child.stdout.destroy()
    expect((await ended).code).toBe(0)
    expect(outcome.stderr).toBe('')
  })
})

it('resume-deliveries names a database that does not respond, whose companies it does not know', async () => {
  const paused = { ...JSON.parse(COMPANY), deliveries_paused: true }
  const size = { companies: 0, rows: 0, size_bytes: 0, size_max_bytes: 10_000_000_000 }
  const databases = ['DB', 'DB_TWO'].map((name) => ({ name, ...size, error: name === 'DB' ? null : 'DeadlineError' }))
  const pagination = { per_page: 100, next_cursor: null, has_more: false }
  const url = await serve(({ url = '' }, response) => {
    if (url.endsWith('/databases')) return void response.end(JSON.stringify({ data: databases, moves: [] }))
    response.end(JSON.stringify(url.includes('/companies?') ? { data: [paused], pagination } : JSON.parse(COMPANY)))
  })
  const { code, stdout, stderr } = await runHere('companies', ['resume-deliveries', '--remote', url], REMOTE)
  expect([code, stderr]).toEqual([1, 'No response from DB_TWO, whose companies are left out: repeat this.\n'])
  expect(stdout).toContain('Company 1 (A "1"): waiting events are delivered')
})

it('a restore that cannot read the last invoice number prints the seed file that raises it', async () => {
  const progress = { done: true, backup: '2026-01-31T00:00:00.000Z', step: 'done', rows: 5, differences: [] }
  const url = await serveText(JSON.stringify({ ...progress, accounting: 'failed' }), COMPANY)
  const args = ['restore', '1', '--from', '2026-01-31', '--remote', url]
  const { code, stdout, stderr } = await runHere('companies', args, REMOTE)
  expect(code).toBe(0)
  expect(stdout).toContain(
    `Its deliveries are paused. When all is right: npm run companies -- resume-deliveries 1 --remote ${url}\n`,
  )
  expect(stderr).toContain(`npm run seed -- FILE.json --remote ${url} before`)
  expect(stderr).not.toContain('run it again')
  const { company } = JSON.parse((stderr.trimEnd().split('\n').at(-1) ?? '').replace('NUMBER', '5000'))
  expect(company).toEqual({ id: 1, name: 'A "1"', last_invoice_number: 5000 })
})

const RECOVERY = { companies_paused: 2, tokens_revoked: 0, company: null, missing: null, next_cursor: null }

it('a recovery of a company without rows in its database names both, and what to do', async () => {
  const url = await serveText(JSON.stringify({ ...RECOVERY, missing: { id: 7, database: 'DB_TWO' } }))
  const { stdout, stderr } = await runHere('companies', ['recover', '--remote', url], REMOTE)
  expect(stdout).toContain('Recovered: 0.')
  const remedy = 'add its binding if it has none, else set all databases back to the same minute'
  expect(stderr).toBe(`Company 7 is not in DB_TWO: ${remedy}, and repeat this.\n`)
})

it('a recovery whose response was lost repeats that step, and tells what it paused', async () => {
  let requests = 0
  const url = await serve((request, response) => {
    if (++requests === 1) request.socket.destroy()
    else response.end(JSON.stringify(RECOVERY))
  })
  const { code, stdout } = await runHere('companies', ['recover', '--remote', url], REMOTE)
  expect([code, requests]).toEqual([0, 2])
  expect(stdout).toContain('Companies whose deliveries this paused: 2.')
  expect(stdout).toContain(`: npm run companies -- resume-deliveries --remote ${url}\n`)
})

it.each([
  [0, 3, 'A company is being moved: repeat this when its move is finished. Keep the old key.'],
  // One request reads at most 2,000 of them in each database.
  [
    2_000,
    2_500,
    '2000 values cannot be read with any key: add the old key again, or save those credentials again. Until then keep all keys.',
  ],
])('a rotation of the key says why it left %i unreadable of %i values', async (unreadable, remaining, message) => {
  const url = await serveText(JSON.stringify({ reencrypted: 0, unreadable, remaining }))
  const { code, stdout, stderr } = await runHere('rotate-key', ['--remote', url], REMOTE)
  expect([code, stdout, stderr]).toEqual([1, '', `${message}\n`])
})

it('a rotation of the key says when the old one may go, and as long as which backups it is stored', async () => {
  const url = await serveText(JSON.stringify({ reencrypted: 3, unreadable: 0, remaining: 0 }))
  const { code, stdout } = await runHere('rotate-key', ['--remote', url], REMOTE)
  expect(code).toBe(0)
  expect(stdout).toMatch(/^Encrypted 3 values .*run this again in 31 days, before you remove that/)
  expect(stdout).toContain("as long as 'npm run companies -- backups ID' lists one from before now")
})

describe('a command line', () => {
  it.each([
    [
      ['--name', 'list', 'create', '2'],
      {},
      'Missing action: it comes first. Usage: npm run tokens -- create | list | rotate | revoke',
    ],
    [['2'], {}, "Unknown action '2'. Usage: npm run tokens"],
    [['create', '--company'], {}, "Option '--company' requires a value. Usage: npm run tokens -- create"],
    [['rotate', '1', '--overlap', '-5m'], {}, "Option '--overlap' requires a value. Usage: npm run tokens -- rotate"],
    // `npm run tokens --company 2`
    [['2'], { npm_config_company: 'true' }, "npm has taken '--company' for itself: write `--` before the options."],
    [
      ['list', '2'],
      { npm_config_company: 'true' },
      "npm has taken '--company' for itself: write `--` before the options.",
    ],
  ])('%j with %j is explained in one line', async (args, env, message) => {
    const { code, stdout, stderr } = await runHere('tokens', args, env)
    expect([code, stdout, stderr.trimEnd().split('\n').length]).toEqual([1, '', 1])
    expect(stderr).toContain(message)
  })

  it.each([
    ['ded', '.'],
    ['.', 'ded'],
    ['./absent', 'dead'],
  ])('that names neither a state of events nor a directory is refused: %s, %s', async (...states) => {
    const args = ['list', ...states.flatMap((state) => ['--state', state])]
    const mistyped = states.find((state) => !/^(dead|\.)$/.test(state))
    expect(await runHere('accounting', args)).toEqual({
      code: 1,
      stdout: '',
      stderr: `--state must be pending, parked, dead or a directory, not '${mistyped}'.\n`,
    })
  })

  it.each([
    ['9999-12-31', 'end', '9999-12-31T23:59:59.999Z'],
    ['9999-12-31T23:30:00-01:00', 'end', '9999-12-31T23:59:59.999Z'],
    ['2027-01-31', 'end', '2027-02-01T00:00:00.000Z'],
    ['2027-01-31', 'start', '2027-01-31T00:00:00.000Z'],
  ] as const)('may have the date %s, whose end the API takes', (text, of, expected) => {
    expect(readValue(time(of), { name: '--to', text })).toBe(expected)
  })

  it('of a command without actions is explained too, before anything is done', async () => {
    const { code, stdout, stderr } = await startCommand('setup', ['staging'], { npm_config_dry_run: 'true' }).ended
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toBe("npm has taken '--dry-run' for itself: write `--` before the options.\n")
  })
})

describe('.dev.vars', () => {
  const fileWith = async (key: string) => {
    const file = join(await temporaryFolder(), '.dev.vars')
    await writeFile(file, `ADMIN_TOKEN="${'ab'.repeat(32)}"\nCREDENTIALS_KEY="${key}"\n`)
    return file
  }

  it.each(['', 'short', 'not base64 at all, but of a good length!!!!'])(
    'with the CREDENTIALS_KEY %j is refused in one line',
    async (key) => {
      const file = await fileWith(key)
      expect(() => readDevVars(file)).toThrow(/^\.dev\.vars: CREDENTIALS_KEY must be 32 bytes in base64\.$/)
    },
  )

  it('may have a new and an old CREDENTIALS_KEY', async () => {
    const file = await fileWith(`${btoa('n'.repeat(32))},${btoa('o'.repeat(32))}`)
    expect(readDevVars(file).ADMIN_TOKEN).toBe('ab'.repeat(32))
  })
})

describe('--help', () => {
  it.each([
    ['dev', ['--help'], ['--port N', '--state DIR']],
    ['seed', ['shop.json', '--help'], ['--state DIR', '--remote', 'src/cli/sample-company.json']],
    [
      'tokens',
      ['create', '--help'],
      ['--company ID', '--name NAME', '--permissions a,b', '--expires DATE', '--overlap TIME', '--remote URL'],
    ],
    [
      'companies',
      ['restore', '--help'],
      ['--hours N', '--role ROLE', '--output FILE', 'npm run -s', '--from DATE', '--remote URL'],
    ],
    ['rotate-key', ['--help'], ['--state DIR', '--remote URL', 'CRM_API_URL', 'CRM_ADMIN_TOKEN']],
    ['accounting', ['-h'], ['retry ID', '--dead', '--state', '--remote']],
    ['webhooks', ['replay', '--help'], ['--company ID', '--url URL', '--events a,b', '--from TIME', '--remote']],
    ['setup', ['--help'], ['--env NAME', '--location HINT', '--jurisdiction NAME', '--dry-run']],
    ['migrate', ['--help'], ['--env NAME', '--state DIR']],
  ] as const)('of %s explains every option and does nothing else', async (command, args, options) => {
    const { code, stdout, stderr } = await startCommand(command, [...args]).ended
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout.startsWith(`npm run ${command}`)).toBe(true)
    for (const option of options) expect(stdout).toContain(option)
    expect(Math.max(...stdout.split('\n').map(({ length }) => length))).toBeLessThanOrEqual(120)
  })
})
