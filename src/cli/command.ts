import { resolve } from 'node:path'
import { type ParseArgsOptionsConfig, parseArgs } from 'node:util'
import { databaseMessage } from '../db/client.ts'
import { parseId } from '../http/contract.ts'

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
  { min, max }: { min: number; max: number } = { min: 0, max: 0 },
) {
  const parsed = parse()
  for (const [name, value] of Object.entries(parsed.values)) {
    if ([value].flat().some((text) => typeof text === 'string' && text.trim() === '')) {
      throw new CommandError(`Option '--${name}' requires a value. Usage: ${usage}`)
    }
  }
  const { length, [max]: surplus } = parsed.positionals
  if (surplus !== undefined) throw new CommandError(`Unexpected argument '${surplus}'. Usage: ${usage}`)
  if (length < min) throw new CommandError(`Usage: ${usage}`)
  return parsed

  function parse() {
    try {
      return parseArgs({ args, options, allowPositionals: true })
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error)
      throw new CommandError(`${message.split(/\.\s|\n/)[0]?.replace(/\.$/, '')}. Usage: ${usage}`)
    }
  }
}

/**
 * Runs the action that a command line names, with the other arguments.
 *
 * @throws CommandError when it names none
 */
export async function runAction(
  args: string[],
  usage: string,
  actions: Record<string, (args: string[]) => Promise<void>>,
): Promise<void> {
  const index = args.findIndex((arg) => Object.hasOwn(actions, arg))
  const action = actions[args[index] ?? '']
  if (!action) throw new CommandError(`${args[0] === undefined ? '' : `Unknown action '${args[0]}'. `}Usage: ${usage}`)
  await action(args.toSpliced(index, 1))
}

/** @throws CommandError when the text of an option or argument is no id */
export function readId(text: string, name: string): number {
  const id = parseId(text)
  if (id === null) throw new CommandError(`${name} must be a positive whole number, not '${text}'.`)
  return id
}

/** Resolves a path against the directory in which `npm run` was called. */
export function resolvePath(path: string): string {
  return resolve(process.env.INIT_CWD ?? process.cwd(), path)
}

export function print(text: string): void {
  process.stdout.write(`${text}\n`)
}

/** A number with its noun, such as `2 statuses`. */
export function countOf(count: number, noun: string): string {
  if (count === 1) return `1 ${noun}`
  return `${count} ${noun}${/[sx]$/.test(noun) ? 'es' : 's'}`
}

/** Lines of aligned columns. The first row holds the headings. */
export function formatTable(rows: string[][]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  const lines = rows.map((row) => row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  '))
  return lines.map((line) => line.trimEnd()).join('\n')
}

/** Runs a command. A failure becomes one line on standard error and exit code 1. */
export async function runCommand(main: (args: string[]) => Promise<void>): Promise<void> {
  try {
    await main(process.argv.slice(2))
  } catch (error) {
    process.exitCode = 1
    // Only the database's message: that of Drizzle would contain the bound values.
    const message = error instanceof CommandError ? error.message : `Failed: ${databaseMessage(error)}`
    const lines = message.split('\n').map((line) => line.trim())
    process.stderr.write(`${lines.filter(Boolean).join(' ')}\n`)
  }
}
