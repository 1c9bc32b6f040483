import { resolve } from 'node:path'
import { type ParseArgsOptionsConfig, parseArgs } from 'node:util'
import type * as z from 'zod/mini'
// Has Zod report what is wrong in words.
import '../kernel/http/messages.ts'

/** The types of the Workers runtime that shared modules name. All of its types would clash with those of Node. */
declare global {
  type D1Database = import('@cloudflare/workers-types').D1Database
  type CryptoKey = import('node:crypto').webcrypto.CryptoKey
}

/** An error that the user can correct: its message is the one line that they see. */
export class CommandError extends Error {
  override name = 'CommandError'
}

export const TEXT = { type: 'string' } as const
export const FLAG = { type: 'boolean' } as const

/**
 * Reads a command line strictly.
 *
 * @param usage shown after the error
 * @param positionals how many arguments that are not options there must be
 * @throws CommandError for an unknown option, a missing or blank value, or a wrong number of arguments
 */
export function readCommandLine<const Options extends ParseArgsOptionsConfig>(
  args: string[],
  usage: string,
  options: Options,
  { min, max } = { min: 0, max: 0 },
) {
  try {
    const parsed = parseArgs({ args, options, allowPositionals: true })
    for (const [name, value] of Object.entries(parsed.values)) {
      const isBlank = [value].flat().some((text) => typeof text === 'string' && text.trim() === '')
      if (isBlank) throw new Error(`Option '--${name}' requires a value`)
    }
    const { length, [max]: surplus } = parsed.positionals
    if (surplus !== undefined) throw new Error(`Unexpected argument '${surplus}'`)
    if (length < min) throw new Error('Missing argument')
    return parsed
  } catch (error) {
    // Node explains an unknown or ambiguous option in further sentences.
    const [message] = error instanceof Error ? error.message.split(/\.?(?: To specify|\n)/) : []
    throw new CommandError(`${message}. Usage: ${usage}`)
  }
}

/** @throws CommandError when the text of an option or argument does not fit the schema */
export function readValue<T>(schema: z.ZodMiniType<T>, text: string, name: string): T {
  const { success, data, error } = schema.safeParse(text)
  if (success) return data
  throw new CommandError(`${name} ${error.issues[0]?.message}, not '${text}'.`)
}

/** Resolves a path against the directory in which `npm run` was called. */
export function resolvePath(path: string): string {
  return resolve(process.env.INIT_CWD ?? process.cwd(), path)
}

export function print(text: string): void {
  process.stdout.write(`${text}\n`)
}

/** Prints what the user should know of a command that succeeds, beside its output. */
export function warn(text: string): void {
  process.stderr.write(`${text}\n`)
}

/** Lines of aligned columns under their headings. */
export function formatTable(headings: string[], rows: (string | number)[][]): string {
  const lines = [headings, ...rows].map((row) => row.map(String))
  const widths = headings.map((_, column) => Math.max(...lines.map((cells) => cells[column]?.length ?? 0)))
  const align = (cells: string[]) => cells.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join('  ')
  return lines.map((cells) => align(cells).trimEnd()).join('\n')
}

/** A date-time of the API without its last digits. */
export function shortTime(time: string | null, characters = '2026-01-31T12:00'.length): string {
  return time === null ? '-' : `${time.slice(0, characters)}Z`
}

/** Text of somebody else in one line. */
export function toLine(text: string): string {
  return text.replaceAll(/[\p{Cc}\s]+/gu, ' ').trim()
}

/** The reader of the output, such as `head`, has read enough. */
const isClosedPipe = (error: unknown) => error instanceof Error && 'code' in error && error.code === 'EPIPE'

/**
 * Runs a command, or prints its help. A failure becomes one line on standard error and exit code 1.
 *
 * @param help names every option of the command
 */
export async function runCommand(help: string, main: (args: string[]) => Promise<void>): Promise<void> {
  const args = process.argv.slice(2)
  process.stdout.on('error', (error) => {
    if (!isClosedPipe(error)) throw error
  })
  if (args.includes('--help') || args.includes('-h')) return print(help)
  try {
    refuseTaken(help)
    await main(args)
  } catch (error) {
    if (isClosedPipe(error)) return
    process.exitCode = 1
    const cause = error instanceof Error ? error.message : String(error)
    const message = error instanceof CommandError ? cause : `Failed: ${cause}`
    const lines = message.split('\n').map((line) => line.trim())
    warn(lines.filter(Boolean).join(' '))
  }
}

/** @throws CommandError for an option of the command that stood before `--`: npm passes it on as a setting of its own */
function refuseTaken(help: string): void {
  for (const [option, name = ''] of help.matchAll(/--([a-z][a-z-]*)/g)) {
    if (process.env[`npm_config_${name.replaceAll('-', '_')}`] === undefined) continue
    throw new CommandError(`npm has taken '${option}' for itself: write \`--\` before the options.`)
  }
}

/** Runs the action of a command that the command line names, with the other arguments. */
export function runActions(usage: string, help: string, actions: Record<string, (args: string[]) => Promise<void>>) {
  return runCommand(help, async (args) => {
    const name = args.find((arg) => Object.hasOwn(actions, arg)) ?? ''
    const isMissing = args[0] === undefined || args[0].startsWith('-')
    const problem = isMissing ? 'Missing action. ' : `Unknown action '${args[0]}'. `
    if (!actions[name]) throw new CommandError(`${problem}Usage: ${usage}`)
    await actions[name](args.toSpliced(args.indexOf(name), 1))
  })
}
