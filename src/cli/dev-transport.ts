import { setImmediate } from 'node:timers/promises'
import * as z from 'zod/mini'
import type { DevRecord } from './dev-record.ts'
import { bindTextOnly } from './render-sql.ts'
import { retryPassing, type Statement, type Transport } from './transport.ts'
import { readDatabaseId } from './wrangler.ts'

const answer = z.object({
  success: z.boolean(),
  errors: z.array(z.object({ message: z.string() })),
  result: z.nullable(z.array(z.object({ results: z.object({ rows: z.array(z.array(z.unknown())) }) }))),
})

/**
 * The database of a running `dev`, through the runtime's own local interface: while it runs, only its process touches
 * the files, so that neither side ever meets a lock. Null when nothing answers there.
 */
export async function openDevTransport(record: DevRecord): Promise<Transport | null> {
  const address = `${record.url}/cdn-cgi/local/explorer/api/d1/database/${readDatabaseId()}/raw`

  async function post(body: Statement | { batch: Statement[] }) {
    const text = JSON.stringify(body)
    // Building a large body takes long: let the client first notice a connection that was closed meanwhile.
    await setImmediate()
    const response = await fetch(address, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: text,
    })
    const received = await response.text()
    // A reload answers in plain words.
    if (!received.startsWith('{')) throw new Error(received.split('\n')[0])
    const { success, errors, result } = answer.parse(JSON.parse(received))
    if (!success || !result) throw new Error(errors[0]?.message ?? `HTTP ${response.status}`)
    return result
  }

  const transport: Transport = {
    query: (statement) => retryPassing(async () => (await post(bindTextOnly(statement)))[0]?.results.rows ?? []),
    write: (batch) =>
      retryPassing(async () => {
        await post({ batch: batch.map(bindTextOnly) })
      }),
    close: async () => {},
  }
  try {
    await transport.query({ sql: 'SELECT 1', params: [] })
    return transport
  } catch {
    return null
  }
}
