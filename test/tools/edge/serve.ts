import { join } from 'node:path'
import { build as bundle } from 'esbuild'
import { fillDatabase, makeTokens } from '../bench/company.ts'
import { CREDENTIALS_KEY, startRuntime } from '../bench/worker.ts'
import { type Build, RUNTIME } from './build.ts'
import type { Location } from './places.ts'
import { copiesOf, type Setup } from './setup.ts'

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
  return { primary, url, errors, stop: () => serving.disposeAsync() }
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
