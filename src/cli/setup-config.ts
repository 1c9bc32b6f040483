import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import * as z from 'zod/mini'
import { DATABASE_BINDING } from '../kernel/db/names.ts'
import { CommandError } from './command.ts'

/** An id is nothing but zeros until its resource is made; then it is read as null. */
const id = z.pipe(
  z.string(),
  z.transform((text) => (/^[0-]+$/.test(text) ? null : text)),
)

/** What wrangler reads of an environment, as far as it names resources. */
const environment = z.object({
  /** The Worker's. */
  name: z.string(),
  d1_databases: z.array(z.object({ binding: z.string(), database_name: z.string(), database_id: id })),
  kv_namespaces: z.array(z.object({ binding: z.string(), id })),
  r2_buckets: z.array(
    z.object({ binding: z.string(), bucket_name: z.string(), jurisdiction: z._default(z.nullable(z.string()), null) }),
  ),
})

/** @throws CommandError when a wrangler.toml or its environment is absent */
export function checkEnvironment(file: string, env: string): void {
  if (!existsSync(file)) throw new CommandError(`There is no file '${file}'.`)
  const names = Array.from(readFileSync(file, 'utf8').matchAll(/^\[env\.([\w-]+)\]$/gm), ([, name]) => name)
  if (!names.includes(env)) throw new CommandError(`--env must be one of ${names.join(', ')}, not '${env}'.`)
}

/** The bindings of an environment's databases, the directory's first; of the local ones without an environment. */
export function listDatabases(file: string, env?: string): string[] {
  const header = env === undefined ? '[[d1_databases]]' : `[[env.${env}.d1_databases]]`
  const sections = readFileSync(file, 'utf8').split(/^(?=\[)/m)
  const names = sections
    .filter((section) => section.startsWith(header))
    .flatMap((section) => /^binding\s*=\s*"(\w+)"/m.exec(section)?.[1] ?? [])
  return names.filter((name) => DATABASE_BINDING.test(name)).sort()
}

/** @throws CommandError when a binding lacks its name or id */
export async function readEnvironment(file: string, env: string): Promise<z.output<typeof environment>> {
  checkEnvironment(file, env)
  // It takes two seconds to load.
  const { unstable_readConfig } = await import('wrangler')
  const { success, data, error } = environment.safeParse(
    unstable_readConfig({ config: file, env }, { hideWarnings: true }),
  )
  if (success) return data
  throw new CommandError(`wrangler.toml, env.${env}: ${z.prettifyError(error)}`)
}

/** A key of a wrangler.toml: `[[env.production.d1_databases]]` with `binding = "DB"`, or the table `[env.production]`. */
export interface ConfigKey {
  table: string
  binding?: string
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

/** What follows `name =` in a line; undefined in any other line. */
function valueIn(line: string, name: string): string | undefined {
  const rest = line.startsWith(name) ? line.slice(name.length).trimStart() : ''
  return rest.startsWith('=') ? rest.slice(1).trimStart() : undefined
}

/** The comment at the end of a line, with the space before it. */
function commentIn(line: string): string {
  const tail = line.slice(line.lastIndexOf('"') + 1)
  const at = tail.search(/\s#/)
  return at === -1 ? '' : tail.slice(tail.slice(0, at).trimEnd().length)
}

/**
 * Sets one key in the text of a wrangler.toml and leaves all else as it is, comments too.
 *
 * @param value as TOML
 * @throws CommandError when the table is written in another form
 */
export function setKey(text: string, { table, binding, key }: ConfigKey, value: string): string {
  const header = binding === undefined ? `[${table}]` : `[[${table}]]`
  const lines = text.split('\n')
  const line = `${key} = ${value}`
  for (let start = lines.indexOf(header); start !== -1; start = lines.indexOf(header, start + 1)) {
    const length = lines.slice(start + 1).findIndex((each) => each.startsWith('['))
    const end = length === -1 ? lines.length : start + 1 + length
    const find = (name: string, first = '') =>
      lines.findIndex((each, at) => at > start && at < end && valueIn(each, name)?.startsWith(first))
    const marker = binding === undefined ? start : find('binding', `"${binding}"`)
    if (marker === -1) continue
    const present = find(key)
    const before = lines[present] ?? ''
    if (before.lastIndexOf('[') > before.lastIndexOf(']')) break // a list of several lines
    const comment = commentIn(before)
    return lines.toSpliced(present === -1 ? marker + 1 : present, present === -1 ? 0 : 1, line + comment).join('\n')
  }
  const place = binding === undefined ? header : `${header} with binding = "${binding}"`
  throw new CommandError(`wrangler.toml has no ${place} that can be changed: write ${line} there yourself.`)
}
