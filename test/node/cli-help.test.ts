import { describe, expect, it } from 'vitest'
import { startCommand } from './start-dev.ts'

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
