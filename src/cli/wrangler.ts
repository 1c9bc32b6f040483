import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
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

/**
 * Starts wrangler in the project's directory with piped output. It ends when this process ends. `wrangler dev` sends a
 * message when it serves.
 */
export function spawnWrangler(args: string[]): ChildProcess {
  const script = `${PROJECT_ROOT}node_modules/wrangler/bin/wrangler.js`
  return spawn(process.execPath, ['--import', END_WITH_PARENT, script, ...args], {
    cwd: PROJECT_ROOT,
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    env: { ...process.env, WRANGLER_SEND_METRICS: 'false', WRANGLER_HIDE_BANNER: 'true', FORCE_COLOR: '0' },
  })
}

/** Collects what a child process writes. */
export function collectOutput(child: ChildProcess): { stdout: string; stderr: string } {
  const output = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const) {
    child[name]?.setEncoding('utf8').on('data', (text: string) => {
      output[name] += text
    })
  }
  return output
}

/**
 * Runs wrangler to its end and returns its standard output.
 *
 * @throws CommandError with wrangler's error message
 */
export async function runWrangler(args: string[]): Promise<string> {
  const child = spawnWrangler(args)
  const output = collectOutput(child)
  const [code] = await once(child, 'close')
  // It has been seen to end with 0 after an error.
  if (code === 0 && !`${output.stdout}${output.stderr}`.includes('[ERROR]')) return output.stdout
  // It colours its errors wherever it runs.
  const lines = stripVTControlCharacters(`${output.stdout}\n${output.stderr}`).trim().split('\n')
  const message = lines.find((line) => line.includes('[ERROR]')) ?? lines.at(-1) ?? ''
  throw new CommandError(`wrangler ${args.slice(0, 3).join(' ')}: ${message.replace(/^.*\[ERROR\]\s*/, '')}`)
}
