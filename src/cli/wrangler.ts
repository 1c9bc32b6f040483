import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { text as readText } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { stripVTControlCharacters } from 'node:util'
import { CommandError } from './command.ts'

/** With a slash at its end. */
export const PROJECT_ROOT = fileURLToPath(new URL('../../', import.meta.url))

/** Preloaded into wrangler's processes, so that they end when their parent has ended, in whatever way. */
const END_WITH_PARENT = `data:text/javascript,${encodeURIComponent(`
  process.once('disconnect', () => process.kill(process.pid, 'SIGTERM'))
  process.channel?.unref()
`)}`

const SETTINGS = { WRANGLER_SEND_METRICS: 'false', WRANGLER_HIDE_BANNER: 'true', FORCE_COLOR: '0' }

/** Starts wrangler with piped output. It ends when this process ends. `wrangler dev` sends a message when it serves. */
export function spawnWrangler(args: string[], input: 'ignore' | 'pipe' = 'ignore'): ChildProcess {
  const script = `${PROJECT_ROOT}node_modules/wrangler/bin/wrangler.js`
  return spawn(process.execPath, ['--import', END_WITH_PARENT, script, ...args], {
    cwd: PROJECT_ROOT,
    stdio: [input, 'pipe', 'pipe', 'ipc'],
    // CLOUDFLARE_ENV would choose an environment where no argument does.
    env: { ...process.env, ...SETTINGS, CLOUDFLARE_ENV: undefined },
  })
}

/** Runs wrangler and returns its output. @throws CommandError with its message and those of the account's API */
export async function runWrangler(args: string[], input?: string): Promise<string> {
  const child = spawnWrangler(args, input === undefined ? 'ignore' : 'pipe')
  // A wrangler that fails may not read it.
  child.stdin?.on('error', () => undefined).end(input)
  const outputs = [child.stdout, child.stderr].map((output) => (output ? readText(output) : ''))
  const [[code], stdout = '', stderr] = await Promise.all([once(child, 'close'), ...outputs])
  // It colours its errors wherever it runs, and may end with 0 after one.
  const text = stripVTControlCharacters(`${stdout}\n${stderr}`)
  if (code === 0 && !text.includes('[ERROR]')) return stdout
  const lines = text.trim().split('\n')
  const errors = lines.filter((line) => /\[ERROR\]|\[code: \d+\]/.test(line))
  const shown = errors.length > 0 ? errors : lines.slice(-1)
  const message = shown.map((line) => line.replace(/^.*\[ERROR\]\s*/, '').trim()).join(' ')
  throw new CommandError(`wrangler ${args.slice(0, 3).join(' ')}: ${message}`)
}
