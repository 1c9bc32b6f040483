import { expect, it } from 'vitest'
import { runCommand } from './cli-support.ts'

const TOKEN = '0'.repeat(64)

it('stores every attachment, skips it in a second run and lists it', async () => {
  const { stdout, stderr } = await runCommand('demo')
  const lines = stdout.split('\n').map((line) => line.trim().split(/\s+/)[0])
  const count = (word: string) => lines.filter((first) => first === word).length
  expect({ stderr, uploaded: count('uploaded'), skipped: count('already_stored'), listed: count('email') }).toEqual({
    stderr: '',
    uploaded: 5,
    skipped: 5,
    listed: 5,
  })
  expect(stdout).toMatch(/image001\.png → orders\/1\/\d+\/email\/\w+\/image001~\w{16}\.png/)
  expect(stdout.match(/missing keys: .*/g)).toEqual(['missing keys: none', 'missing keys: none'])
}, 150_000)

it.each([
  [['--port', '1'], 'Unknown option'],
  [['--url', 'http://127.0.0.1:1'], 'go together'],
  [['--token', TOKEN], 'go together'],
  [['--url', 'nowhere', '--token', TOKEN], '--url must be an address'],
  [['--url', 'http://127.0.0.1:1', '--token', 'short'], '--token must be 64'],
  [['--url', 'http://127.0.0.1:1', '--token', TOKEN, '--thread', 't'], 'the connection to 127.0.0.1:1 failed'],
])(
  'rejects %j with a one-line error and exit code 1',
  async (args, message) => {
    const { code, stderr } = await runCommand('demo', ...args)
    expect(code).toBe(1)
    expect(stderr).toContain(message)
    expect(stderr.trim().split('\n')).toHaveLength(1)
  },
  30_000,
)
