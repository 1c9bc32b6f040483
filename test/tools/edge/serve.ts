import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { build as bundle } from 'esbuild'
import { PROJECT_ROOT, readConfiguration } from '../../../src/cli/wrangler.ts'
import { fillDatabase, makeTokens } from '../harness/company.ts'
import { CREDENTIALS_KEY, startRuntime } from '../harness/worker.ts'
import { copiesOf, type Location, type Setup } from './places.ts'

/** A built Worker, with the bindings that its `wrangler.toml` names. */
export interface Build {
  configuration: ReturnType<typeof readConfiguration>
  /** A module whose `create` evaluates the Worker's again. */
  factory: string
  /** The names of what the Worker exports, but for its default. */
  exported: string[]
}

/** @param root the directory from which the script was built, by default this repository */
export async function readBuild(script: string, root = PROJECT_ROOT): Promise<Build> {
  const configuration = readConfiguration(join(root, 'wrangler.toml'))
  return { configuration, ...(await toFactory(readFileSync(script, 'utf8'))) }
}

/** Modules of the runtime that a Worker may import. */
const RUNTIME = ['cloudflare:*', 'node:*']

/**
 * The Worker's module as a function: each call has a module state of its own, as each isolate has. Its code is that of
 * the build; only its imports and exports are written in another form.
 */
async function toFactory(script: string): Promise<Pick<Build, 'factory' | 'exported'>> {
  const common = { write: false, logLevel: 'silent', external: RUNTIME, bundle: true, target: 'es2024' } as const
  const stdin = { contents: script, loader: 'js' } as const
  const { outputFiles, metafile } = await bundle({ ...common, stdin, format: 'cjs', metafile: true })
  const input = Object.values(metafile.inputs)[0]
  const names = [...new Set(input?.imports.map(({ path }) => path))]
  const { metafile: exports } = await bundle({ ...common, stdin, format: 'esm', metafile: true })
  const exported = Object.values(exports.outputs)[0]?.exports ?? []
  const imports = names.map((name, index) => `import * as module${index} from '${name}'`)
  // What a module of Node exports as default is what `require` returns.
  const modules = names.map((name, index) => `'${name}': module${index}${name.startsWith('node:') ? '.default' : ''}`)
  const factory = `${imports.join('\n')}
const modules = { ${modules.join(', ')} }
const require = (name) => modules[name]
export function create() {
  const module = { exports: {} }
  ;(function (module, exports) {
${outputFiles[0]?.text}
  })(module, module.exports)
  return module.exports
}`
  return { factory, exported: exported.filter((name) => name !== 'default') }
}

/** A simulated platform that serves one build. */
export type Served = Awaited<ReturnType<typeof serve>>
export type Data = ReturnType<typeof makeData>

export const makeData = (clients: number, tokenCount: number) => ({ clients, tokens: makeTokens(tokenCount) })

/** Serves a build whose database has its primary at a location and holds one company; the replica has the same rows. */
export async function serve(build: Build, primary: Location, data: Data, state: string, ignoresBookmarks: boolean) {
  const { configuration } = build
  const names = (list: { binding: string }[]) => list.map(({ binding }) => binding)
  const setup: Setup = {
    primary,
    databases: names(configuration.d1_databases),
    objects: Object.fromEntries(configuration.durable_objects.bindings.map((each) => [each.name, each.class_name])),
    caches: names(configuration.kv_namespaces),
    buckets: names(configuration.r2_buckets),
    ignoresBookmarks,
  }
  const classes = Object.entries({ ...setup.objects, DATABASE_HOST: 'DatabaseHost' })
  const copies = setup.databases.flatMap((name) => copiesOf(name))
  /** What the Worker logged as an error. */
  const errors: string[] = []
  await using started = new AsyncDisposableStack()
  const { worker, url } = started.use(
    await startRuntime(state, {
      modulesRoot: '/',
      modules: [
        { type: 'ESModule', path: '/entry.js', contents: entryOf(build, setup) },
        { type: 'ESModule', path: '/platform.js', contents: await bundlePlatform() },
        { type: 'ESModule', path: '/worker.js', contents: build.factory },
      ],
      d1Databases: Object.fromEntries(copies.map((name) => [name, name])),
      kvNamespaces: setup.caches,
      r2Buckets: setup.buckets,
      durableObjects: Object.fromEntries(classes.map(([name, className]) => [name, { className, useSQLite: true }])),
      ratelimits: Object.fromEntries(configuration.ratelimits.map(({ name, ...limit }) => [name, limit])),
      bindings: { CREDENTIALS_KEY },
      handleStructuredLogs: ({ level, message }: { level: string; message: string }) => {
        if (level === 'error') errors.push(message)
      },
    }),
  )
  // The Worker uses the database in which the company is placed.
  for (const copy of copies) await fillDatabase(await worker.getD1Database(copy), data.clients, data.tokens)
  const serving = started.move()
  return { primary, url, errors, [Symbol.asyncDispose]: () => serving.disposeAsync() }
}

function entryOf({ exported }: Build, setup: Setup): string {
  const others = exported.map((name) => `export const ${name} = simulation.exported('${name}')`)
  return `import { simulate } from './platform.js'
import { create } from './worker.js'
export { DatabaseHost } from './platform.js'
const simulation = simulate(create, ${JSON.stringify(setup)})
export default simulation.handler
${others.join('\n')}`
}

async function bundlePlatform(): Promise<string> {
  const { outputFiles } = await bundle({
    entryPoints: [join(import.meta.dirname, 'platform/index.ts')],
    bundle: true,
    write: false,
    format: 'esm',
    target: 'es2024',
    external: RUNTIME,
    logLevel: 'silent',
  })
  return outputFiles[0]?.text ?? ''
}
