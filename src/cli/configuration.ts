import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { parse } from 'smol-toml'
import * as z from 'zod/mini'
import { type Argument, CommandError, resolvePath } from './command.ts'
import { PROJECT_ROOT } from './wrangler.ts'

const resources = {
  d1_databases: z.array(z.object({ binding: z.string(), database_name: z.string(), database_id: z.string() })),
  kv_namespaces: z.array(z.object({ binding: z.string(), id: z.string() })),
  r2_buckets: z.array(z.object({ binding: z.string(), bucket_name: z.string(), jurisdiction: z.optional(z.string()) })),
}
/** A `wrangler.toml`, whose top level is for development. */
const configuration = z.object({
  name: z.string(),
  compatibility_date: z.string(),
  compatibility_flags: z.array(z.string()),
  vars: z._default(z.record(z.string(), z.string()), {}),
  ...resources,
  durable_objects: z.object({ bindings: z.array(z.object({ name: z.string(), class_name: z.string() })) }),
  ratelimits: z.array(
    z.object({
      name: z.string(),
      namespace_id: z.string(),
      simple: z.object({ limit: z.number(), period: z.literal([10, 60]) }),
    }),
  ),
  env: z.record(z.string(), z.object({ name: z.optional(z.string()), ...resources })),
})

export const CONFIG: Argument<string> = {
  usage: '[--config FILE]',
  read: (given) => resolvePath(given.at(-1)?.text ?? `${PROJECT_ROOT}wrangler.toml`),
}

/** @throws CommandError when the file is absent, or a binding lacks its name or id */
export function readConfiguration(file = `${PROJECT_ROOT}wrangler.toml`) {
  if (!existsSync(file)) throw new CommandError(`There is no file '${file}'.`)
  const { success, data, error } = configuration.safeParse(parse(readFileSync(file, 'utf8')))
  if (!success) throw new CommandError(`${file}: ${z.prettifyError(error)}`)
  return data
}

/** @throws CommandError as {@link readConfiguration}, and for an environment that is absent */
export function readEnvironment(file: string, env: string) {
  const { name, env: environments } = readConfiguration(file)
  const found = Object.hasOwn(environments, env) && environments[env]
  if (found) return { ...found, name: found.name ?? `${name}-${env}` }
  throw new CommandError(`--env must be one of ${Object.keys(environments).join(', ')}, not '${env}'.`)
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
