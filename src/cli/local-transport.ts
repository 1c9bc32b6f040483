import { mkdirSync } from 'node:fs'
import { setImmediate } from 'node:timers/promises'
import { Miniflare } from 'miniflare'
import * as z from 'zod/mini'
import { CommandError } from './command.ts'
import { retryPassing, type Statement, type Transport } from './transport.ts'
import { PROJECT_ROOT, readDatabaseId } from './wrangler.ts'

/** Runs a list of statements as one transaction. Miniflare's own proxy would ask twice for every statement. */
const WORKER = `export default {
  async fetch(request, { DB }) {
    const prepare = ({ sql, params }) => DB.prepare(sql).bind(...params)
    try {
      const { query, batch } = await request.json()
      const rows = query ? await prepare(query).raw() : void (await DB.batch(batch.map(prepare)))
      return Response.json({ rows: rows ?? [] })
    } catch (error) {
      return Response.json({ error: error.message })
    }
  },
}`

const answer = z.union([z.object({ rows: z.array(z.array(z.unknown())) }), z.object({ error: z.string() })])

/**
 * The database in the files of a state directory, through a runtime of our own.
 *
 * @param state what `wrangler dev --persist-to` takes
 */
export function openLocalTransport(state: string): Transport {
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
            mainModule: 'worker.mjs',
            modulesRoot: PROJECT_ROOT,
            modules: { 'worker.mjs': { type: 'esm', contents: WORKER } },
          },
          env: { DB: { type: 'd1', id: readDatabaseId() } },
        },
        dev: { rootPath: PROJECT_ROOT },
      },
    ],
  })

  async function ask(work: { query: Statement } | { batch: Statement[] }): Promise<unknown[][]> {
    const body = JSON.stringify(work)
    // Building a large body takes long: let the client first notice a connection that was closed meanwhile.
    await setImmediate()
    const response = await runtime.dispatchFetch('http://cli/', { method: 'POST', body })
    const result = answer.parse(await response.json())
    if ('error' in result) throw new Error(result.error)
    return result.rows
  }

  return {
    query: (query) => retryPassing(() => ask({ query })),
    write: (batch) =>
      retryPassing(async () => {
        await ask({ batch })
      }),
    close: () => runtime.dispose(),
  }
}
