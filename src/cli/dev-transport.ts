import * as z from 'zod'
import type { DevRecord } from './dev-record.ts'
import { bindTextOnly } from './render-sql.ts'
import { retryWhileLocked, type Statement, type Transport } from './transport.ts'
import { readDatabaseId } from './wrangler.ts'

const answer = z.object({
  success: z.boolean(),
  errors: z.array(z.object({ message: z.string() })),
  result: z.array(z.object({ results: z.object({ rows: z.array(z.array(z.unknown())) }) })).nullable(),
})

/**
 * The database of a running `dev`, through the runtime's own local interface: while it runs, only its process touches
 * the files, so that neither side ever meets a lock. Null when nothing answers there.
 */
export async function openDevTransport(record: DevRecord): Promise<Transport | null> {
  const address = `${record.url}/cdn-cgi/local/explorer/api/d1/database/${readDatabaseId()}/raw`

  async function post(body: Statement | { batch: Statement[] }) {
    const response = await fetch(address, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    const { success, errors, result } = answer.parse(await response.json())
    if (!success || !result) throw new Error(errors[0]?.message ?? `HTTP ${response.status}`)
    return result
  }

  const transport: Transport = {
    query: (statement) => retryWhileLocked(async () => (await post(bindTextOnly(statement)))[0]?.results.rows ?? []),
    write: (batch) =>
      retryWhileLocked(async () => {
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
