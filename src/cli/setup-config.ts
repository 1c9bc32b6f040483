import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { parse } from 'smol-toml'
import * as z from 'zod/mini'
import { type Argument, CommandError, resolvePath } from './command.ts'
import { PROJECT_ROOT } from './wrangler.ts'

/** An id is nothing but zeros until its resource is made; then it is read as null. */
const id = z.pipe(
  z.string(),
  z.transform((text) => (/^[0-]+$/.test(text) ? null : text)),
)

/** Names resources by environment; the top level is for development. */
const resources = z.object({
  name: z.optional(z.string()),
  d1_databases: z.array(z.object({ binding: z.string(), database_name: z.string(), database_id: id })),
  kv_namespaces: z.array(z.object({ binding: z.string(), id })),
  r2_buckets: z.array(
    z.object({ binding: z.string(), bucket_name: z.string(), jurisdiction: z._default(z.nullable(z.string()), null) }),
  ),
})
const configuration = z.looseObject({ name: z.string(), env: z.record(z.string(), z.unknown()) })

export const CONFIG: Argument<string> = {
  usage: '[--config FILE]',
  read: (given) => resolvePath(given.at(-1)?.text ?? `${PROJECT_ROOT}wrangler.toml`),
}

/** @throws CommandError when a wrangler.toml or its environment is absent, or a binding lacks its name or id */
export function readEnvironment(file: string, env?: string) {
  if (!existsSync(file)) throw new CommandError(`There is no file '${file}'.`)
  const config = configuration.parse(parse(readFileSync(file, 'utf8')))
  const names = Object.keys(config.env)
  if (env !== undefined && !names.includes(env)) {
    throw new CommandError(`--env must be one of ${names.join(', ')}, not '${env}'.`)
  }
  const { success, data, error } = resources.safeParse(env === undefined ? config : config.env[env])
  if (!success) throw new CommandError(`${file}${env === undefined ? '' : `, env.${env}`}: ${z.prettifyError(error)}`)
  return { ...data, name: data.name ?? `${config.name}-${env}` }
}

/** A key of a wrangler.toml: `[[env.production.d1_databases]]` with `binding = "DB"`. */
export interface ConfigKey {
  table: string
  binding: string
  key: string
}

/** Sets a key in a file at once, so that it is never half written. Returns whether that changed it. */
export function writeConfig(file: string, where: ConfigKey, value: string): boolean {
  const text = readFileSync(file, 'utf8')
  const changed = setKey(text, where, value)
  if (changed === text) return false
  writeFileSync(`${file}.new`, changed)
  renameSync(`${file}.new`, file)
  return true
}

/** Sets a key to a TOML value and keeps all else, comments too. @throws CommandError for a table of another form */
export function setKey(text: string, { table, binding, key }: ConfigKey, value: string): string {
  const marker = new RegExp(`^binding *= *"${binding}".*\n`, 'm')
  const sections = text.split(/^(?=\[)/m)
  const at = sections.findIndex((section) => section.startsWith(`[[${table}]]\n`) && marker.test(section))
  const section = sections[at] ?? ''
  const line = `${key} = ${value}`
  if (at === -1) {
    const where = `[[${table}]] with binding = "${binding}"`
    throw new CommandError(`wrangler.toml has no ${where} that can be changed: write ${line} there yourself.`)
  }
  const present = new RegExp(`^${key} *= *"[^"\n]*"`, 'm')
  const changed = present.test(section)
    ? section.replace(present, line)
    : section.replace(marker, (before) => `${before}${line}\n`)
  return sections.with(at, changed).join('')
}
