/// <reference path="./globals.d.ts" />
import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { databaseMessage } from '../db/client.ts'

/** Something the user can put right: its message is the one line they see. */
export class CommandError extends Error {
  override name = 'CommandError'
}

export interface CommandLine<Name extends string> {
  positionals: string[]
  values: { [K in Name]?: string }
  flags: Set<string>
}

/**
 * Reads a command line strictly.
 *
 * @param usage shown behind every complaint
 * @param options names of the options that take a value; `flags` those that do not
 * @throws CommandError for an unknown option, a missing or blank value, or more words than `positionals`
 */
export function readCommandLine<Name extends string>(
  args: string[],
  usage: string,
  shape: { options: readonly Name[]; flags?: readonly string[]; positionals: [min: number, max: number] },
): CommandLine<Name> {
  const { options, flags = [], positionals: count } = shape
  const line: CommandLine<Name> = { positionals: [], values: {}, flags: new Set() }
  try {
    const parsed = parseArgs({
      args,
      allowPositionals: true,
      options: Object.fromEntries([
        ...options.map((name) => [name, { type: 'string' }] as const),
        ...flags.map((name) => [name, { type: 'boolean' }] as const),
      ]),
    })
    line.positionals = parsed.positionals
    const given = new Map<string, unknown>(Object.entries(parsed.values))
    for (const name of options) {
      const value = given.get(name)
      if (typeof value === 'string') line.values[name] = value
    }
    line.flags = new Set(flags.filter((name) => given.get(name) === true))
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    throw new CommandError(`${message.split(/\.\s|\n/)[0]?.replace(/\.$/, '')}. Usage: ${usage}`)
  }
  for (const name of options) {
    if (line.values[name]?.trim() === '') throw new CommandError(`Option '--${name}' needs a value. Usage: ${usage}`)
  }
  const [min, max] = count
  if (line.positionals.length > max) {
    throw new CommandError(`Unexpected argument '${line.positionals[max]}'. Usage: ${usage}`)
  }
  if (line.positionals.length < min) throw new CommandError(`Usage: ${usage}`)
  return line
}

/** A path as its writer meant it: from where `npm run` was called. */
export function resolvePath(path: string): string {
  return resolve(process.env.INIT_CWD ?? process.cwd(), path)
}

/** Runs a command; what goes wrong becomes one line on standard error and exit code 1. */
export async function runCommand(main: (args: string[]) => Promise<void>): Promise<void> {
  try {
    await main(process.argv.slice(2))
  } catch (error) {
    process.exitCode = 1
    // Only a database's own words: Drizzle's message would hold the bound values.
    const message = error instanceof CommandError ? error.message : `Failed: ${databaseMessage(error)}`
    const lines = message.split('\n').map((line) => line.trim())
    process.stderr.write(`${lines.filter(Boolean).join(' ')}\n`)
  }
}
