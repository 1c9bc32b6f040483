import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Call, type SimulatedResponse, type Simulator, startSimulator } from './kit.ts'

type Row = Record<string, unknown>

/** The API as an integrator meets it, for one company, with the storage that its upload addresses point to. */
interface CrmState {
  /** Address of the scope, set by `PUT /seed`: upload addresses start with it. */
  base: string
  companyId: number
  storageConfigured: boolean
  /** Whether listings of files are cut, as those of a slow storage. */
  truncated: boolean
  uploadDelayMs: number
  clients: Row[]
  orders: Row[]
  contexts: Record<string, Row>
  /** By `account_email` and legacy id. */
  threads: Record<string, Row>
  /** By whole key. */
  files: Record<string, { body: string; contentType: string; length: number }>
  /** First responses by `Idempotency-Key`. */
  responses: Record<string, { request: string; response: SimulatedResponse }>
  changes: number
  uploadsNow: number
  uploadsAtOnce: number
}

const MAX_FILE_BYTES = 157_286_400

/**
 * Plays the integration API under `/api/v1` and the upload address under `/upload`. `PUT /seed` with a part of
 * {@link CrmState} sets it. Every response carries a rising `X-Bookmark` and an `X-Request-Id`.
 */
export function startCrmApi(port = 0): Promise<Simulator> {
  return startSimulator<CrmState>(
    () => ({
      base: '',
      companyId: 1,
      storageConfigured: true,
      truncated: false,
      uploadDelayMs: 0,
      clients: [],
      orders: [],
      contexts: {},
      threads: {},
      files: {},
      responses: {},
      changes: 0,
      uploadsNow: 0,
      uploadsAtOnce: 0,
    }),
    async (call, state) => {
      const url = new URL(call.path, 'http://simulator')
      if (url.pathname === '/seed') {
        Object.assign(state, JSON.parse(call.body))
        return { status: 200, body: '{}' }
      }
      if (url.pathname.startsWith('/upload/')) return receiveUpload(call, url, state)
      const response = handleOnce(call, url, state)
      const isReplay = response.headers?.['idempotency-replayed'] !== undefined
      if (call.method !== 'GET' && response.status === 200 && !isReplay) state.changes += 1
      const headers = { 'x-bookmark': String(state.changes).padStart(8, '0'), 'x-request-id': 'request-1' }
      return { ...response, headers: { ...headers, ...response.headers } }
    },
    port,
  )
}

/** Replays the first response to a request with the same `Idempotency-Key`. */
function handleOnce(call: Call, url: URL, state: CrmState): SimulatedResponse {
  const key = String(call.headers['idempotency-key'] ?? '')
  const request = `${call.method} ${call.path} ${call.body}`
  const first = state.responses[key]
  if (first && first.request !== request) {
    return fail(400, 'invalid_request', 'Another request had this key', { reason: 'idempotency_key_reused' })
  }
  if (first) return { ...first.response, headers: { ...first.response.headers, 'idempotency-replayed': 'true' } }
  const response = handleApi(call, url, state)
  if (key !== '' && response.status === 200) state.responses[key] = { request, response }
  return response
}

function handleApi(call: Call, url: URL, state: CrmState): SimulatedResponse {
  if (!/^Bearer [0-9a-f]{64}$/.test(call.headers.authorization ?? '')) {
    return fail(401, 'unauthenticated', 'Missing or invalid token')
  }
  const [, , , ...segments] = url.pathname.split('/').map(decodeURIComponent)
  const body: Row = call.body === '' ? {} : JSON.parse(call.body)
  const [first, second = '', third, fourth] = segments
  const verb = call.method
  if (first === 'clients') return handleClients(verb, second, url.searchParams, body, state)
  if (first === 'orders' && third === 'files') {
    if (!state.orders.some((order) => String(order.id) === second)) return notFound('Order')
    return fourth === 'presign' ? presign(second, body, state) : listFiles(second, url.searchParams, state)
  }
  if (first === 'orders') return handleOrders(verb, second, url.searchParams, body, state)
  if (first === 'products' && second === 'search')
    return ok({ query: url.searchParams.get('q') ?? '', local_items: [] })
  if (first === 'products') return ok({ source: second, query: Object.fromEntries(url.searchParams), products: [] })
  if (first === 'mail' && second === 'threads') {
    const context = state.contexts[third ?? '']
    return context ? ok(context) : notFound('Thread context')
  }
  if (first === 'mail') return handleEmailThread(call, third ?? '', url.searchParams, body, state)
  return notFound('Path')
}

function handleClients(
  verb: string,
  id: string,
  query: URLSearchParams,
  body: Row,
  state: CrmState,
): SimulatedResponse {
  if (id === '' && verb === 'GET') return listPage(state.clients, query)
  if (id === '') {
    if (!body.company_name) return invalid('company_name', 'Required')
    const client = { id: state.clients.length + 1, deleted: false, ...body }
    state.clients.push(client)
    return ok({ client })
  }
  const key = (query.get('email') ?? id).toLowerCase()
  const client = state.clients.find((row) => String(row.id) === key || String(row.email).toLowerCase() === key)
  if (!client) return notFound('Client')
  return ok({ client: verb === 'PATCH' ? Object.assign(client, body) : client })
}

function handleOrders(verb: string, id: string, query: URLSearchParams, body: Row, state: CrmState): SimulatedResponse {
  if (id === '' && verb === 'GET') return listPage(state.orders, query)
  if (id === '') {
    const project = { id: state.orders.length + 1, ...body }
    state.orders.push(project)
    return ok({ project, invoice: null })
  }
  const project = state.orders.find((row) => String(row.id) === id && row.deleted !== true)
  if (!project) return notFound('Order')
  if (verb === 'PATCH') Object.assign(project, body)
  if (verb === 'DELETE') project.deleted = true
  return ok({ project, invoice: null })
}

function handleEmailThread(
  call: Call,
  threadId: string,
  query: URLSearchParams,
  body: Row,
  state: CrmState,
): SimulatedResponse {
  const email = String(query.get('account_email') ?? body.account_email ?? '').toLowerCase()
  if (!email.includes('@')) return invalid('account_email', 'Required')
  const key = `${email} ${threadId}`
  const stored = state.threads[key]
  if (call.method === 'GET') {
    if (!stored) return notFound('Email thread')
    const etag = `"${createHash('sha256').update(JSON.stringify(stored)).digest('hex').slice(0, 16)}"`
    if (call.headers['if-none-match'] === etag) return { status: 304, headers: { etag }, body: '' }
    return ok({ email_thread: stored }, { etag })
  }
  if (!Array.isArray(body.messages)) return invalid('messages', 'Required')
  const thread = {
    ...stored,
    participants: [],
    labels: [],
    ...body,
    account_email: email,
    legacy_thread_id: threadId,
    message_count: body.messages.length,
    deleted: false,
  }
  state.threads[key] = thread
  return ok({ email_thread: thread })
}

function presign(orderId: string, body: Row, state: CrmState): SimulatedResponse {
  const { fileName, size, legacyThreadId, contentType = 'application/octet-stream' } = body
  const name = String(fileName ?? '')
    .replace(/^.*[/\\]/s, '')
    .normalize('NFC')
    .replace(/\p{Cc}/gu, '')
  if (name.trim() === '' || name === '.' || name === '..' || Buffer.byteLength(name) > 255) {
    return invalid('fileName', 'No usable name')
  }
  if (typeof size !== 'number' || !Number.isInteger(size) || size < 0 || size > MAX_FILE_BYTES) {
    return invalid('size', 'Not a size')
  }
  if (/[\r\n]/.test(String(contentType))) return invalid('contentType', 'Not a media type')
  if (!state.storageConfigured) return fail(409, 'invalid_request', 'No storage', { reason: 'storage_not_configured' })
  const key = `orders/${state.companyId}/${orderId}/email/${legacyThreadId}/${name}`
  const path = key.split('/').map(encodeURIComponent).join('/')
  const uploadUrl = `${state.base}/upload/${path}?signature=${sign(key, String(contentType), size)}`
  return ok({ uploadUrl, key, contentType, expiresIn: 600 })
}

async function receiveUpload(call: Call, url: URL, state: CrmState): Promise<SimulatedResponse> {
  state.uploadsNow += 1
  state.uploadsAtOnce = Math.max(state.uploadsAtOnce, state.uploadsNow)
  if (state.uploadDelayMs > 0) await sleep(state.uploadDelayMs)
  state.uploadsNow -= 1
  const key = url.pathname.slice('/upload/'.length).split('/').map(decodeURIComponent).join('/')
  const contentType = call.headers['content-type'] ?? ''
  const length = Number(call.headers['content-length'])
  if (url.searchParams.get('signature') !== sign(key, contentType, length) || call.headers.authorization) {
    const body = `<?xml version="1.0"?><Error><Code>SignatureDoesNotMatch</Code><Key>${key}</Key></Error>`
    return { status: 403, headers: { 'content-type': 'application/xml' }, body }
  }
  state.files[key] = { body: call.body, contentType, length }
  return { status: 200, headers: { etag: '"1"' }, body: '' }
}

function listFiles(orderId: string, query: URLSearchParams, state: CrmState): SimulatedResponse {
  const thread = query.get('legacyThreadId')
  const prefix = `orders/${state.companyId}/${orderId}/${thread === null ? '' : `email/${thread}/`}`
  const files = Object.entries(state.files)
    .filter(([path]) => path.startsWith(prefix))
    .map(([path, { length }]) => ({
      path,
      objectName: path.slice(path.lastIndexOf('/') + 1),
      length,
      lastChanged: '2026-01-31T00:00:00.000Z',
      source: path.includes('/email/') ? 'email' : 'manual',
    }))
  const { storageConfigured: configured, truncated } = state
  return ok({ files: configured && !truncated ? files : [], configured, truncated })
}

function listPage(rows: Row[], query: URLSearchParams): SimulatedResponse {
  const page = Number(query.get('page') ?? 1)
  const perPage = Number(query.get('per_page') ?? 25)
  const cursor = query.get('cursor')
  // A cursor of this simulator is the last element's id.
  const start = cursor === null ? (page - 1) * perPage : rows.findIndex((row) => Number(row.id) > Number(cursor))
  const data = start < 0 ? [] : rows.slice(start, start + perPage)
  const hasMore = start >= 0 && start + perPage < rows.length
  const next = hasMore ? String(data.at(-1)?.id) : null
  const pagination = { page, per_page: perPage, total: rows.length, next_cursor: next, has_more: hasMore }
  return ok({ data, pagination })
}

function sign(key: string, contentType: string, length: number): string {
  return createHash('sha256')
    .update(JSON.stringify([key, contentType, length]))
    .digest('hex')
}

function ok(body: unknown, headers: Record<string, string> = {}): SimulatedResponse {
  return { status: 200, headers, body: JSON.stringify(body) }
}

function notFound(what: string): SimulatedResponse {
  return fail(404, 'not_found', `${what} not found`)
}

function invalid(path: string, message: string): SimulatedResponse {
  return fail(400, 'invalid_request', 'The request is invalid', { issues: [{ path, message }] })
}

function fail(status: number, code: string, message: string, details: unknown = null): SimulatedResponse {
  return { status, body: JSON.stringify({ error: { code, message, details } }) }
}
