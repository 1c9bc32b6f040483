import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempDisposable, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { stripVTControlCharacters } from 'node:util'
import * as z from 'zod/mini'
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
  if (code === 0) return output.stdout
  // It colours its errors wherever it runs.
  const lines = stripVTControlCharacters(`${output.stdout}\n${output.stderr}`).trim().split('\n')
  const message = lines.find((line) => line.includes('[ERROR]')) ?? lines.at(-1) ?? ''
  throw new CommandError(`wrangler ${args.slice(0, 3).join(' ')}: ${message.replace(/^.*\[ERROR\]\s*/, '')}`)
}

type Parameter = string | number | null

/** SQL with its parameters in the order of the question marks. */
export const statement = z.object({ sql: z.string(), params: z.array(z.nullable(z.union([z.string(), z.number()]))) })
export type Statement = z.output<typeof statement>

/** A connection to a database. */
export interface Transport {
  /** The rows of a statement that only reads, as arrays in the order of its columns. */
  query: (statement: Statement) => Promise<unknown[][]>
  /** Runs statements as one transaction. They must be idempotent: they may run twice. */
  write: (statements: Statement[]) => Promise<void>
  close: () => Promise<void>
}

const wranglerOutput = z.array(z.object({ results: z.array(z.record(z.string(), z.unknown())) }))

/**
 * A database through `wrangler d1 execute`, which runs a file as one transaction.
 *
 * @param location wrangler's options for it, such as `['--remote']`
 */
export function openWranglerTransport(location: string[]): Transport {
  const execute = (...args: string[]) => runWrangler(['d1', 'execute', 'DB', ...location, '--yes', ...args])
  return {
    async query(statement) {
      const output = await execute('--json', '--command', renderStatement(statement))
      const [first] = wranglerOutput.parse(JSON.parse(output.slice(output.indexOf('['))))
      return first?.results.map((row) => Object.values(row)) ?? []
    },
    async write(statements) {
      await using directory = await mkdtempDisposable(join(tmpdir(), 'crm-sql-'))
      const file = join(directory.path, 'statements.sql')
      const sql = statements.map((statement) => `${renderStatement(statement)};\n`).join('')
      await writeFile(file, sql, { mode: 0o600 })
      await execute('--file', file)
    },
    close: async () => {},
  }
}

/** Text that can neither end a string or a statement, nor be a keyword at which wrangler splits a file. */
const PLAIN = /^[\w @.:+\-/(),{}[\]"]*$/
const KEYWORD = /--|\/\*|\b(begin|end|case|trigger|transaction|savepoint|commit)\b/i

/**
 * A statement with its parameters in its SQL, for tools that take only text. Text that is not plain becomes the hex of
 * its UTF-8 bytes, so that no content can change what the statement does.
 *
 * @throws Error when the numbers of question marks and parameters differ
 */
export function renderStatement(statement: Statement): string {
  return fillIn(statement, renderParameter)
}

/** A statement with its numbers and nulls in its SQL, for an interface that binds only text. */
export function bindTexts(statement: Statement): { sql: string; params: string[] } {
  const sql = fillIn(statement, (value) => (typeof value === 'string' ? '?' : renderParameter(value)))
  return { sql, params: statement.params.filter((value) => typeof value === 'string') }
}

function fillIn({ sql, params }: Statement, render: (value: Parameter) => string): string {
  const [first = '', ...rest] = sql.split('?')
  if (rest.length !== params.length) throw new Error('A statement must have as many parameters as question marks.')
  return rest.reduce((text, part, index) => text + render(params[index] ?? null) + part, first)
}

function renderParameter(value: Parameter): string {
  if (value === null) return 'NULL'
  if (typeof value === 'string') {
    if (PLAIN.test(value) && !KEYWORD.test(value)) return `'${value}'`
    return `CAST(X'${Buffer.from(value, 'utf8').toString('hex')}' AS TEXT)`
  }
  if (!Number.isFinite(value)) throw new Error('A number in a statement must be finite.')
  return Object.is(value, -0) ? '0' : String(value)
}
