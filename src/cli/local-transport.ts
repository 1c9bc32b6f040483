import { mkdirSync } from 'node:fs'
import { Miniflare } from 'miniflare'
import { CommandError } from './command.ts'
import { retryWhileLocked, type Statement, type Transport } from './transport.ts'
import { PROJECT_ROOT, readDatabaseId } from './wrangler.ts'

/**
 * The database in the files of a state directory, through a runtime of our own.
 *
 * @param state what `wrangler dev --persist-to` takes
 */
export async function openLocalTransport(state: string): Promise<Transport> {
  try {
    mkdirSync(`${state}/v3/d1`, { recursive: true })
  } catch {
    throw new CommandError(`Cannot keep data in '${state}': it is no directory that can be written to.`)
  }
  const runtime = new Miniflare({
    resourcePersistencePath: `${state}/v3`,
    handleStructuredLogs: () => {},
    cf: false,
    telemetry: { enabled: false },
    workers: [
      {
        config: {
          name: 'cli',
          compatibilityDate: '2026-10-20',
          manifest: {
            mainModule: 'empty.mjs',
            modulesRoot: PROJECT_ROOT,
            modules: { 'empty.mjs': { type: 'esm', contents: 'export default {}' } },
          },
          env: { DB: { type: 'd1', id: readDatabaseId() } },
        },
        dev: { rootPath: PROJECT_ROOT },
      },
    ],
  })
  const database = await runtime.getD1Database('DB')
  const prepare = ({ sql, params }: Statement) => database.prepare(sql).bind(...params)

  return {
    query: (statement) => retryWhileLocked(() => prepare(statement).raw<unknown[]>()),
    write: (statements) =>
      retryWhileLocked(async () => {
        await database.batch(statements.map(prepare))
      }),
    close: () => runtime.dispose(),
  }
}
