import { type ChildProcess, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { CommandError } from './command.ts'

export const PROJECT_ROOT = fileURLToPath(new URL('../..', import.meta.url))

const WRANGLER = fileURLToPath(new URL('../../node_modules/wrangler/bin/wrangler.js', import.meta.url))
const END_WITH_PARENT = new URL('end-with-parent.ts', import.meta.url).href
const DATABASE_ID = /^database_id\s*=\s*"([^"]+)"/m

/** The id under which `wrangler dev` keeps the database, from `wrangler.toml`. */
export function readDatabaseId(): string {
  const [, id] = DATABASE_ID.exec(readFileSync(`${PROJECT_ROOT}/wrangler.toml`, 'utf8')) ?? []
  if (id === undefined) throw new CommandError('wrangler.toml has no database_id.')
  return id
}

/** Starts wrangler in the project folder with piped output. It ends when this process has ended. */
export function spawnWrangler(args: string[]): ChildProcess {
  return spawn(process.execPath, ['--import', END_WITH_PARENT, WRANGLER, ...args], {
    cwd: PROJECT_ROOT,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      ...process.env,
      WRANGLER_SEND_METRICS: 'false',
      WRANGLER_HIDE_BANNER: 'true',
      NO_COLOR: '1',
      FORCE_COLOR: '0',
    },
  })
}

/**
 * Runs wrangler to its end.
 *
 * @returns its standard output
 * @throws CommandError with wrangler's error message
 */
export async function runWrangler(args: string[]): Promise<string> {
  const child = spawnWrangler(args)
  let output = ''
  let errorOutput = ''
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    output += text
  })
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    errorOutput += text
  })
  const code = await new Promise<number | null>((resolve, reject) => child.once('error', reject).once('close', resolve))
  if (code === 0) return output
  throw new CommandError(
    `wrangler ${args.slice(0, 3).join(' ')}: ${findErrorLine(errorOutput) ?? findErrorLine(output) ?? 'failed.'}`,
  )
}

/** The first line marked as an error, else the last line. */
function findErrorLine(output: string): string | undefined {
  const lines = output
    .split('\n')
    .map((line) => line.trim())
    .filter(Boolean)
  const marked = lines.find((line) => line.includes('[ERROR]'))
  return marked?.replace(/^.*\[ERROR\]\s*/, '') ?? lines.at(-1)
}
