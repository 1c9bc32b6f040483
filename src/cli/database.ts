import { drizzle, type SqliteRemoteDatabase } from 'drizzle-orm/sqlite-proxy'
import { CommandError, resolvePath } from './command.ts'
import { readDevRecord } from './dev-record.ts'
import { openDevTransport } from './dev-transport.ts'
import { prepareDatabase } from './migrations.ts'
import type { Parameter, Statement, Transport } from './transport.ts'
import { PROJECT_ROOT } from './wrangler.ts'
import { openWranglerTransport } from './wrangler-transport.ts'

/** Which database a command works on. */
export type Place = { state: string } | 'remote'

/** A statement under construction, as Drizzle makes it. */
export interface Query {
  toSQL: () => { sql: string; params: unknown[] }
}

export interface CommandDatabase {
  /** For reads; writes are built with it and handed to `write`. */
  orm: SqliteRemoteDatabase
  /** One transaction: all of it or nothing. It may be carried out twice. */
  write: (queries: Query[]) => Promise<void>
  close: () => Promise<void>
}

/** @throws CommandError when `--remote` and `--state` are both given */
export function readPlace(state: string | undefined, remote: boolean): Place {
  if (remote && state !== undefined) throw new CommandError("Options '--remote' and '--state' cannot be used together.")
  if (remote) return 'remote'
  return { state: state === undefined ? `${PROJECT_ROOT}.wrangler/state` : resolvePath(state) }
}

/** Opens the database and brings its schema up to date when it is not. */
export async function openDatabase(place: Place): Promise<CommandDatabase> {
  const transport = await openTransport(place)
  try {
    await prepareDatabase(transport, place)
  } catch (error) {
    await transport.close()
    throw error
  }
  return wrapTransport(transport)
}

/** Drizzle over a transport. */
export function wrapTransport(transport: Transport): CommandDatabase {
  return {
    orm: drizzle(async (sql, params, method) => {
      const rows = await transport.query({ sql, params })
      return { rows: method === 'get' ? (rows[0] ?? []) : rows }
    }),
    async write(queries) {
      if (queries.length > 0) await transport.write(queries.map(toStatement))
    },
    close: transport.close,
  }
}

async function openTransport(place: Place): Promise<Transport> {
  if (place === 'remote') return openWranglerTransport(['--remote'])
  const record = readDevRecord(place.state)
  const transport = record && (await openDevTransport(record))
  if (transport) return transport
  // The runtime takes a third of a second to load: only where it is needed.
  const { openLocalTransport } = await import('./local-transport.ts')
  return openLocalTransport(place.state)
}

function toStatement(query: Query): Statement {
  const { sql, params } = query.toSQL()
  return { sql, params: params.map(toParameter) }
}

function toParameter(value: unknown): Parameter {
  if (value === null || typeof value === 'string' || typeof value === 'number') return value
  throw new Error('A statement has a parameter that SQLite does not take.')
}
