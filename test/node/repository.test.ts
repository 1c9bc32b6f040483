import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { unstable_readConfig } from 'wrangler'
import * as z from 'zod/mini'

const text = z.optional(z.string())
const binding = z.object({
  binding: text,
  name: text,
  class_name: text,
  simple: z.optional(z.unknown()),
  database_name: text,
  database_id: text,
  id: text,
  bucket_name: text,
  namespace_id: text,
  local_dev: z.optional(z.unknown()),
})
const lists = z.record(z.string(), z.unknown())

const read = (env?: string) =>
  lists.parse(unstable_readConfig({ config: 'wrangler.toml', env }, { hideWarnings: true }))
const [development, staging, production] = [read(), read('staging'), read('production')]

/** Every binding, of whatever kind: the items of the configuration's lists that have a name. */
function listBindings(config: Record<string, unknown>) {
  return Object.entries(config).flatMap(([kind, value]) => {
    const items = z.object({ bindings: z.array(binding) }).safeParse(value).data?.bindings ?? value
    const found = z.array(binding).safeParse(items).data ?? []
    return found.flatMap((item) => {
      const name = item.binding ?? item.name
      return name === undefined ? [] : [{ ...item, kind, name }]
    })
  })
}

/** A binding without what differs between environments. */
const describeBinding = ({ kind, name, class_name, simple }: ReturnType<typeof listBindings>[number]) =>
  JSON.stringify({ kind, name, class_name, simple })

const ENVIRONMENTS = [
  ['staging', staging],
  ['production', production],
] as const

describe('the environments of wrangler.toml', () => {
  it.each(ENVIRONMENTS)('%s has the bindings, classes and limits of development', (_, config) => {
    const kinds = listBindings(development).map(({ kind }) => kind)
    for (const kind of ['d1_databases', 'kv_namespaces', 'r2_buckets', 'durable_objects', 'ratelimits']) {
      expect(kinds).toContain(kind)
    }
    expect(listBindings(config).map(describeBinding).sort()).toEqual(
      listBindings(development).map(describeBinding).sort(),
    )
    expect(config.migrations).toEqual(development.migrations)
    expect(config.triggers).toEqual(development.triggers)
    // Without it, calls of addresses that companies choose could pass the Access and firewall rules of the Worker's zone.
    expect(config.compatibility_flags).toContain('global_fetch_strictly_public')
    expect(config.secrets).toEqual({ required: ['CREDENTIALS_KEY', 'ADMIN_TOKEN'] })
  })

  it('share no database, namespace, bucket or count', () => {
    const names = [development, staging, production]
      .flatMap(listBindings)
      .flatMap(({ database_name, bucket_name, namespace_id, database_id, id }) => [
        ...[database_name, bucket_name, namespace_id].filter(Boolean),
        ...[database_id, id].filter((each) => each !== undefined && !/^[0-]+$/.test(each)),
      ])
    expect(names.length).toBeGreaterThanOrEqual(12)
    expect(names).toEqual([...new Set(names)])
  })

  it('production is served from domains of its own only, and has nothing that is for development', () => {
    expect(production).toMatchObject({ workers_dev: false, preview_urls: false })
    const domain = { pattern: expect.any(String), custom_domain: true }
    expect(production.routes).toEqual([domain, domain])
    for (const config of [staging, production]) {
      expect(Object.keys(lists.parse(config.vars)).sort()).toEqual(['ACCESS_AUDIENCE', 'ACCESS_ISSUER', 'OPERATORS'])
      expect(JSON.stringify(listBindings(config))).not.toContain('experimental_s3_credentials')
    }
  })
})

const ROOT = join(import.meta.dirname, '../..')
const run = promisify(execFile)

/** The type-check runs of `npm run check:types`, one for each environment: worker, Node, client, settings page, tests in workerd. */
const PROJECTS = [
  'src/tsconfig.worker.json',
  'src/tsconfig.node.json',
  'src/tsconfig.browser.json',
  'src/tsconfig.settings.json',
  'test',
]

async function listFiles(project: string): Promise<string[]> {
  const { stdout } = await run(join(ROOT, 'node_modules/.bin/tsc'), ['-p', project, '--listFilesOnly'], { cwd: ROOT })
  return stdout.trim().split('\n')
}

it('type-checks every committed TypeScript file, but for the workspace with a compiler of its own', async () => {
  const { stdout } = await run('git', ['ls-files', '*.ts', ':!test/contract'], { cwd: ROOT })
  const checked = new Set((await Promise.all(PROJECTS.map(listFiles))).flat().map((file) => relative(ROOT, file)))
  const files = stdout.trim().split('\n')
  expect(files.filter((file) => !checked.has(file))).toEqual([])
})

const TOOLS = join(import.meta.dirname, '../tools')

it('gives slot 0, which a look-alike has, to no company that a tool measures', () => {
  const files = readdirSync(TOOLS, { recursive: true, encoding: 'utf8' }).filter(
    (name) => name.endsWith('.ts') && !name.includes('node_modules'),
  )
  const taking = files.filter((name) =>
    /INSERT INTO companies \(id, slot[^)]*\)\s+VALUES \([^,]+, 0,|slot: 0/.test(
      readFileSync(join(TOOLS, name), 'utf8'),
    ),
  )
  expect(taking).toEqual([])
})
