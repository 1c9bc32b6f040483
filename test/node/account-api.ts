import { randomBytes, randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { DatabaseSync } from 'node:sqlite'
import { text } from 'node:stream/consumers'
import { unstable_splitSqlQuery } from 'wrangler'
import { listen } from './servers.ts'

/*
 * A stand-in of the account API of Cloudflare (https://developers.cloudflare.com/api/), as far as `npm run setup` and
 * `wrangler d1 migrations apply` call it: its envelope, and its codes as wrangler 4.155 knows them (7502, 10007, 10014)
 * or as others met them (10004, 10006, 10013, 10042, 10059). All it lists is on the first page.
 */

interface Database {
  uuid: string
  name: string
  hint?: string
  jurisdiction: string | null
  replication: string
  sqlite: DatabaseSync
}

interface Namespace {
  id: string
  title: string
  jurisdiction?: string
}

interface Bucket {
  name: string
  location: string
  jurisdiction: string
  cors?: unknown
}

interface Call {
  method: string
  path: string
  body: string
}

interface Reply {
  status?: number
  result?: unknown
  error?: [code: number, message: string]
}

const fail = (status: number, code: number, message: string): Reply => ({ status, error: [code, message] })

export type AccountApi = Awaited<ReturnType<typeof startAccountApi>>

/** Starts it with an empty account. `cut` breaks the connection of a call, before or after it has its effect. */
export async function startAccountApi() {
  const account = randomBytes(16).toString('hex')
  const token = randomBytes(20).toString('hex')
  const api = {
    account,
    token,
    databases: [] as Database[],
    namespaces: [] as Namespace[],
    buckets: [] as Bucket[],
    workers: new Map<string, { secrets: Map<string, string> }>(),
    calls: [] as Call[],
    /** Of a wrangler in this process, and calls of setup itself. */
    commands: [] as string[],
    cut: null as { call: number; after: boolean } | null,
    /** Replaces the reply to a path. */
    replies: new Map<string, { status: number; body: string }>(),
  }
  const { databases, namespaces, buckets, workers, calls } = api

  function handleD1(method: string, path: string[], body: string): Reply {
    const details = ({ uuid, name, jurisdiction }: Database) => ({ uuid, name, jurisdiction, version: 'production' })
    if (path.length === 0 && method === 'GET') return { result: databases.map(details) }
    if (path.length === 0) {
      const { name, primary_location_hint: hint, jurisdiction = null } = JSON.parse(body)
      if (databases.some((each) => each.name === name)) return fail(400, 7502, 'Database already exists')
      const sqlite = new DatabaseSync(':memory:')
      const database = { uuid: randomUUID(), name, hint, jurisdiction, replication: 'disabled', sqlite }
      databases.push(database)
      return { result: { ...details(database), num_tables: 0, read_replication: { mode: 'disabled' } } }
    }
    const database = databases.find(({ uuid }) => uuid === path[0])
    if (!database) return fail(404, 7404, 'The database was not found')
    if (path[1] === 'query') return { result: runStatements(database.sqlite, JSON.parse(body)) }
    if (method === 'PATCH') database.replication = JSON.parse(body).read_replication.mode
    const [row] = database.sqlite.prepare("SELECT count(*) AS n FROM sqlite_schema WHERE type = 'table'").all()
    return {
      result: { ...details(database), num_tables: row?.n, read_replication: { mode: database.replication } },
    }
  }

  function handleKv(method: string, [id]: string[], body: string): Reply {
    const found = namespaces.find((each) => each.id === id)
    if (id !== undefined) return found ? { result: found } : fail(404, 10013, 'namespace not found')
    if (method === 'GET') return { result: namespaces }
    const { title, jurisdiction } = JSON.parse(body)
    if (namespaces.some((each) => each.title === title)) {
      return fail(400, 10014, 'a namespace with this account ID and title already exists')
    }
    const namespace = { id: randomBytes(16).toString('hex'), title, ...(jurisdiction && { jurisdiction }) }
    namespaces.push(namespace)
    return { result: { ...namespace, supports_url_encoding: true } }
  }

  function handleR2(method: string, path: string[], body: string, jurisdiction: string): Reply {
    const find = (name?: string) => buckets.find((each) => each.name === name && each.jurisdiction === jurisdiction)
    if (path.length === 0) {
      const { name, locationHint = 'wnam' } = JSON.parse(body)
      if (find(name)) return fail(409, 10004, 'The bucket you tried to create already exists, and you own it.')
      buckets.push({ name, location: locationHint, jurisdiction })
      return { result: find(name) }
    }
    const bucket = find(path[0])
    if (!bucket) return fail(404, 10006, 'The specified bucket does not exist.')
    if (path[1] === undefined) return { result: bucket }
    if (method === 'PUT') bucket.cors = JSON.parse(body)
    if (bucket.cors === undefined) return fail(404, 10059, 'The CORS configuration does not exist.')
    return { result: method === 'PUT' ? {} : bucket.cors }
  }

  function handleWorker(method: string, [name = '', part]: string[], body: string, type: string): Reply {
    const worker = workers.get(name)
    if (part === undefined && method === 'PUT') {
      if (!type.startsWith('multipart/form-data')) return fail(415, 10001, 'Unsupported Media Type')
      workers.set(name, { secrets: worker?.secrets ?? new Map() })
      return { result: { id: name } }
    }
    if (!worker) return fail(404, 10007, 'This Worker does not exist on your account.')
    if (part === 'secrets-bulk') {
      if (type !== 'application/merge-patch+json') return fail(415, 10001, 'Unsupported Media Type')
      const entries = Object.entries<{ name: string; text: string; type: string }>(JSON.parse(body).secrets)
      for (const [key, { text }] of entries) worker.secrets.set(key, text)
    }
    return { result: [...worker.secrets.keys()].map((name) => ({ name, type: 'secret_text' })) }
  }

  function handle(request: IncomingMessage, path: string, body: string): Reply {
    const { method = '', headers } = request
    if (headers.authorization !== `Bearer ${token}`) return fail(403, 10000, 'Authentication error')
    const prefix = `/client/v4/accounts/${account}/`
    if (!path.startsWith(prefix)) return fail(404, 7003, `Could not route to ${path}`)
    const parts = path.slice(prefix.length).split('/')
    const type = headers['content-type'] ?? ''
    switch (parts.slice(0, 2).join('/')) {
      case 'd1/database':
        return handleD1(method, parts.slice(2), body)
      case 'storage/kv':
        return handleKv(method, parts.slice(3), body)
      case 'r2/buckets':
        return handleR2(method, parts.slice(2), body, String(headers['cf-r2-jurisdiction'] ?? 'default'))
      case 'workers/scripts':
        return handleWorker(method, parts.slice(2), body, type)
      default:
        return fail(404, 7000, 'No route for that URI')
    }
  }

  const { url, close } = await listen(async (request, response) => {
    const body = await text(request)
    const url = new URL(request.url ?? '/', 'http://localhost')
    const { cut, replies } = api
    // wrangler asks for statistics, which it can do without.
    if (url.pathname.endsWith('/graphql')) return void response.end('{"data":null,"errors":[]}')
    calls.push({ method: request.method ?? '', path: url.pathname.replace(/^.*\/accounts\/\w+\//, ''), body })
    const isCut = cut?.call === calls.length
    if (isCut && !cut.after) return void request.socket.destroy()
    const replaced = replies.get(calls.at(-1)?.path ?? '')
    const isFurther = Number(url.searchParams.get('page') ?? 1) > 1
    const {
      status = 200,
      result = null,
      error,
    }: Reply = isFurther ? { result: [] } : handle(request, url.pathname, body)
    if (isCut) return void request.socket.destroy()
    response.writeHead(replaced?.status ?? status, { 'content-type': 'application/json' })
    const errors = error ? [{ code: error[0], message: error[1] }] : []
    response.end(replaced?.body ?? JSON.stringify({ success: !error, errors, messages: [], result }))
  })
  return Object.assign(api, {
    env: {
      CLOUDFLARE_API_BASE_URL: `${url}/client/v4`,
      CLOUDFLARE_ACCOUNT_ID: account,
      CLOUDFLARE_API_TOKEN: token,
    },
    changes: () => calls.filter(({ method }) => method !== 'GET'),
    close,
  })
}

/** As D1 runs a query of several statements: as one transaction, with a result for each. */
function runStatements(sqlite: DatabaseSync, { sql, params = [] }: { sql: string; params?: string[] }) {
  sqlite.exec('BEGIN')
  try {
    const results = unstable_splitSqlQuery(sql).map((statement) => ({
      results: sqlite.prepare(statement).all(...params),
      success: true,
      meta: { duration: 0 },
    }))
    sqlite.exec('COMMIT')
    return results
  } catch (error) {
    sqlite.exec('ROLLBACK')
    throw error
  }
}
