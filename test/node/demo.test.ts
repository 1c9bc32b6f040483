import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'

const ROOT = join(import.meta.dirname, '../..')
const TOKEN = '0'.repeat(64)
const run = promisify(execFile)

const demo = (...args: string[]) => run(process.execPath, ['src/cli/demo.ts', ...args], { cwd: ROOT })

it('stores every attachment, finds them again and lists them', async () => {
  const { stdout, stderr } = await demo()
  const lines = stdout.split('\n').map((line) => line.trim().split(/\s+/)[0])
  const count = (word: string) => lines.filter((first) => first === word).length
  expect({ stderr, uploaded: count('uploaded'), kept: count('already_stored'), listed: count('email') }).toEqual({
    stderr: '',
    uploaded: 5,
    kept: 5,
    listed: 5,
  })
  expect(stdout).toMatch(/image001\.png → orders\/1\/\d+\/email\/\w+\/image001~\w{8}\.png/)
  expect(stdout).not.toMatch(/missing keys: (?!none)/)
}, 150_000)

it.each([
  [['--port', '1'], 'Unknown option'],
  [['--url', 'http://127.0.0.1:1'], 'go together'],
  [['--token', TOKEN], 'go together'],
  [['--url', 'nowhere', '--token', TOKEN], '--url must be an address'],
  [['--url', 'http://127.0.0.1:1', '--token', 'short'], '--token must be 64'],
  [['--url', 'http://127.0.0.1:1', '--token', TOKEN, '--thread', 't'], 'the connection failed'],
])(
  'answers %j with one line and exit code 1',
  async (args, complaint) => {
    const failure = await demo(...args).then(
      () => null,
      (error: { code: number; stderr: string }) => error,
    )
    expect(failure?.code).toBe(1)
    expect(failure?.stderr).toContain(complaint)
    expect(failure?.stderr.trim().split('\n')).toHaveLength(1)
  },
  30_000,
)
