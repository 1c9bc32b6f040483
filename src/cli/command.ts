import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import * as z from 'zod/mini'
import { ApiError } from '../client/errors.ts'
import type { Contract } from '../kernel/api/contract.ts'
// Sets the messages of every schema.
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

/** A word of the command line: of an option with its name, else of a positional argument. */
export interface Given {
  name: string
  text: string
}

export interface Argument<T> {
  /** `ID`, `--name NAME`, `--dry-run` or `ID | --all`, in brackets where it may be left out. */
  usage: string
  /** Lines on its options, for the end of the help. */
  help?: string
  /** Finds the company of a unique id: a list of all companies that takes it. */
  find?: Contract & { response: z.ZodMiniType<{ data: { company_id: number }[] }> }
  /** @throws CommandError when the words do not fit */
  read: (given: Given[]) => T
}
export type Arguments = Record<string, Argument<unknown>>
export type Values<A extends Arguments> = { [K in keyof A]: A[K] extends Argument<infer T> ? T : never }

export const TEXT = z.string()

export const oneOf = <const T extends string>(names: readonly T[]) =>
  z.enum(names, `must be one of ${names.join(', ')}`)

/** A comma list of some of these names. */
export function someOf<const T extends string>(names: readonly T[]) {
  const split = z.transform((text: string) => text.split(',').map((name) => name.trim()))
  return z.pipe(z.pipe(TEXT, split), z.array(oneOf(names)))
}

export function required<T>(usage: string, schema: z.ZodMiniType<T>): Argument<T> {
  return { usage, read: (given) => readValue(schema, given.at(-1)) }
}

export function optional<T>(usage: string, schema: z.ZodMiniType<T>): Argument<T | undefined> {
  return { usage: `[${usage}]`, read: (given) => (given.length === 0 ? undefined : readValue(schema, given.at(-1))) }
}

/** The last word of an argument that several options can give. @throws CommandError when more than one did */
export function onlyOne(given: Given[]): Given | undefined {
  const [one, other] = new Set(given.map(({ name }) => name))
  if (other) throw new CommandError(`Options '${one}' and '${other}' cannot be used together.`)
  return given.at(-1)
}

/** @throws CommandError for a text that the schema refuses */
export function readValue<T>(schema: z.ZodMiniType<T>, { name, text }: Given = { name: '', text: '' }): T {
  const { success, data, error } = schema.safeParse(text, { reportInput: true })
  if (success) return data
  const [{ message, input } = { message: '' }] = error.issues
  // One of several names; a number was another text.
  throw new CommandError(`${name} ${message}, not '${typeof input === 'string' ? input : text}'.`)
}

function usageOf(prefix: string, described: Arguments): string {
  return [prefix, ...Object.values(described).map(({ usage }) => usage)].join(' ')
}

/** Reads a command line strictly. `prefix` begins the usage in errors. @throws CommandError */
export function readArguments<A extends Arguments>(args: string[], prefix: string, described: A): Values<A> {
  const named = Object.values(described).flatMap(({ usage }) => [...usage.matchAll(/--([a-z-]+)( [^\s|])?/g)])
  const types = named.map(([, name, value]) => [name, { type: value === undefined ? 'boolean' : 'string' }] as const)
  try {
    const options = Object.fromEntries(types)
    const { tokens, positionals } = parseArgs({ args, options, allowPositionals: true, tokens: true })
    const chosen = tokens.filter((token) => token.kind === 'option')
    const given = chosen.map(({ name, value }): Given => ({ name: `--${name}`, text: value ?? 'true' }))
    const blank = given.find(({ text }) => text.trim() === '')
    if (blank) throw new Error(`Option '${blank.name}' requires a value`)
    const words = Object.entries(described).map(([key, argument]) => {
      const names: string[] = argument.usage.match(/--[a-z-]+/g) ?? []
      const isPositional = /^\[?[A-Z]/.test(argument.usage)
      const place = isPositional ? positionals.splice(0, 1).map((text) => ({ name: nameOf(argument), text })) : []
      const own = [...place, ...given.filter(({ name }) => names.includes(name))]
      const problem = isPositional ? 'Missing argument' : `Option '${names.join("' or '")}' is required`
      if (own.length === 0 && !argument.usage.startsWith('[')) throw new Error(problem)
      return [key, argument, own] as const
    })
    if (positionals[0] !== undefined) throw new Error(`Unexpected argument '${positionals[0]}'`)
    return Object.fromEntries(words.map(([key, { read }, own]) => [key, read(own)])) as Values<A>
  } catch (error) {
    if (error instanceof CommandError || !(error instanceof Error)) throw error
    // Node explains an unknown or ambiguous option in further sentences.
    const [sentence = ''] = error.message.split(/\.?(?: To specify|\n)/)
    const message = sentence.replace(/( <value>)?' argument (missing|is ambiguous)$/, "' requires a value")
    throw new CommandError(`${message}. Usage: ${usageOf(prefix, described)}`)
  }
}

/** The name of an argument in messages: `--name`, or `ID`. */
export function nameOf({ usage }: Argument<unknown>): string {
  return /[\w-]+/.exec(usage)?.[0] ?? ''
}

/** Resolves a path against the directory in which `npm run` was called. */
export function resolvePath(path: string): string {
  return resolve(process.env.INIT_CWD ?? process.cwd(), path)
}

export type Command = ReturnType<typeof command>

export function command<A extends Arguments>(described: A, run: (values: Values<A>) => Promise<void>) {
  const runWith = (args: string[], prefix: string) => run(readArguments(args, prefix, described))
  return { arguments: described, run: runWith }
}

/** The reader of the output, such as `head`, has read enough. */
const isClosedPipe = (error: unknown) => error instanceof Error && 'code' in error && error.code === 'EPIPE'

/** Runs the action that the command line names, or the only one, named ''. A failure becomes one line and exit code 1. */
export async function runCommand(name: string, help: string, actions: Record<string, Command>): Promise<void> {
  const prefix = `npm run ${name} --`
  const usages = Object.entries(actions).map(([action, each]) => usageOf(`${prefix} ${action}`.trim(), each.arguments))
  const described = Object.values(actions).flatMap((each) => Object.values(each.arguments))
  const text = [usages.join('\n'), help, ...new Set(described.flatMap((each) => each.help ?? []))].join('\n\n')
  const args = process.argv.slice(2)
  process.stdout.on('error', (error) => {
    if (!isClosedPipe(error)) throw error
  })
  if (args.includes('--help') || args.includes('-h')) return console.log(text)
  try {
    for (const [option, name = ''] of text.matchAll(/--([a-z][a-z-]*)/g)) {
      // It stood before `--`.
      const isTaken = process.env[`npm_config_${name.replaceAll('-', '_')}`] !== undefined
      if (isTaken) throw new CommandError(`npm has taken '${option}' for itself: write \`--\` before the options.`)
    }
    const action = '' in actions ? '' : (args.shift() ?? '')
    const chosen = Object.hasOwn(actions, action) ? actions[action] : undefined
    if (chosen) return await chosen.run(args, `${prefix} ${action}`.trim())
    // Behind an option, the name of an action may be the option's value.
    const problem = /^(-|$)/.test(action) ? 'Missing action: it comes first.' : `Unknown action '${action}'.`
    throw new CommandError(`${problem} Usage: ${prefix} ${Object.keys(actions).join(' | ')}`)
  } catch (error) {
    if (isClosedPipe(error)) return
    process.exitCode = 1
    const cause = error instanceof Error ? error.message : String(error)
    const isForUser = error instanceof CommandError || error instanceof ApiError
    const message = isForUser ? cause : `Failed: ${cause}`
    console.error(message.trim().replaceAll(/\s*\n\s*/g, ' '))
  }
}
