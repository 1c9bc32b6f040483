import { randomUUID } from 'node:crypto'
import {
  type Books,
  createCustomer,
  createInvoice,
  deleteInvoice,
  digest,
  editByHand,
  openBooks,
  readInvoice,
  removeInvoice,
  runQuery,
  updateInvoice,
  voidInvoice,
} from './accounting-books.ts'
import { credentialsFor, makeFault, makeLowerFault, type Steering } from './accounting-data.ts'
import { Refusal } from './accounting-fields.ts'
import { type Answer, type Call, type Simulator, startSimulator } from './kit.ts'

export * from './accounting-data.ts'

/** What one scope of the simulator holds; read it with the kit's control endpoint. */
export interface AccountingState {
  lifetimeSeconds: number
  /** By realm: the one refresh token that is good, or null after the consent was taken back. */
  grants: Record<string, string | null>
  accessTokens: Record<string, { realmId: string; expiresAtMs: number }>
  realms: Record<string, Books>
  /** Whether tokens are given by the token host alone. */
  tokensMoved: boolean
}

const STEERING = '/__books'
const TOKEN_PATH = '/oauth2/v1/tokens/bearer'
/** Marks a call that comes from the token host. */
const TOKEN_HOST_HEADER = 'x-token-host'
const NO_SUCH_PAGE = { status: 404, headers: { 'content-type': 'text/html' }, body: '<html>Not found</html>' }

/**
 * Starts the accounting system: tokens at `/oauth2/v1/tokens/bearer`, books at `/v3/company/{realm}/…`.
 *
 * A realm that was not met in this run takes any refresh token of its form, so that a client which kept a rotated token
 * can go on after the simulator was started anew. From then on only the newest is good.
 */
export function startAccounting(port = 0): Promise<Simulator> {
  return startSimulator<AccountingState>(makeState, handle, port)
}

/** Starts the host that gives the tokens of a system and nothing else; its scopes are the system's. */
export function startTokenHost(system: Simulator): Promise<Simulator> {
  return startSimulator<{ scopeId: string }>(
    (scopeId) => ({ scopeId }),
    async ({ method, path, headers, body }, { scopeId }) => {
      if (path !== TOKEN_PATH || method !== 'POST') return NO_SUCH_PAGE
      const { authorization = '' } = headers
      const relayed = { authorization, [TOKEN_HOST_HEADER]: 'yes' }
      const response = await fetch(`${system.url}/t/${scopeId}${path}`, { method, headers: relayed, body })
      return { status: response.status, body: await response.text() }
    },
  )
}

function makeState(): AccountingState {
  return { lifetimeSeconds: 3_600, grants: {}, accessTokens: {}, realms: {}, tokensMoved: false }
}

function handle(call: Call, state: AccountingState): Answer {
  const url = new URL(call.path, 'http://simulator')
  if (url.pathname === STEERING && call.method === 'POST') return steer(state, JSON.parse(call.body))
  if (url.pathname === TOKEN_PATH && call.method === 'POST') {
    return state.tokensMoved && !call.headers[TOKEN_HOST_HEADER] ? NO_SUCH_PAGE : giveTokens(call, state)
  }
  const [, realmId, path] = /^\/v3\/company\/(\d+)\/(.+)$/.exec(url.pathname) ?? []
  if (!realmId || !path) return NO_SUCH_PAGE
  const refused = refuseToken(call, state, realmId)
  if (refused) return refused
  const books = getBooks(state, realmId)
  return call.method === 'POST' ? replay(books, call, url, path) : answer(() => read(books, url, path))
}

function steer(state: AccountingState, order: Steering): Answer {
  switch (order.action) {
    case 'expire_access':
      for (const token of Object.values(state.accessTokens)) token.expiresAtMs = 0
      break
    case 'set_lifetime':
      state.lifetimeSeconds = order.seconds
      break
    case 'revoke_grant':
      state.grants[order.realm_id] = null
      dropAccess(state, order.realm_id)
      break
    case 'grant':
      state.grants[order.realm_id] = order.refresh_token
      break
    case 'edit_invoice':
      editByHand(getBooks(state, order.realm_id), order.id, order.fields)
      break
    case 'remove_invoice':
      removeInvoice(getBooks(state, order.realm_id), order.id)
      break
    case 'take_name':
      getBooks(state, order.realm_id).otherNames.push(order.name)
      break
    case 'set_active': {
      const customer = getBooks(state, order.realm_id).customers[order.id]
      if (customer) customer.Active = order.active
      break
    }
    case 'set_taxes': {
      const { taxes } = getBooks(state, order.realm_id)
      taxes.codes = order.codes ?? taxes.codes
      if (order.automated_rate !== undefined) taxes.automatedRate = order.automated_rate
      break
    }
    case 'move_tokens':
      state.tokensMoved = true
      break
    case 'close_books':
      getBooks(state, order.realm_id).closedUntil = order.until
      break
  }
  return { status: 200, body: '{}' }
}

function giveTokens(call: Call, state: AccountingState): Answer {
  const form = new URLSearchParams(call.body)
  const offered = form.get('refresh_token') ?? ''
  const [, realmId = ''] = /^refresh-(\d+)-/.exec(offered) ?? []
  const { client_id: clientId, client_secret: clientSecret } = credentialsFor(realmId)
  const basic = `Basic ${Buffer.from(`${clientId}:${clientSecret}`).toString('base64')}`
  if (call.headers.authorization !== basic) return refuseGrant(401, 'invalid_client')
  if (form.get('grant_type') !== 'refresh_token') return refuseGrant(400, 'unsupported_grant_type')
  const good = realmId in state.grants ? state.grants[realmId] : offered
  if (!realmId || good !== offered) return refuseGrant(400, 'invalid_grant')

  const refreshToken = `refresh-${realmId}-${randomUUID()}`
  const accessToken = `access-${realmId}-${randomUUID()}`
  state.grants[realmId] = refreshToken
  state.accessTokens[accessToken] = { realmId, expiresAtMs: Date.now() + state.lifetimeSeconds * 1_000 }
  return {
    status: 200,
    body: JSON.stringify({
      token_type: 'bearer',
      access_token: accessToken,
      expires_in: state.lifetimeSeconds,
      refresh_token: refreshToken,
      x_refresh_token_expires_in: 8_726_400,
    }),
  }
}

function refuseGrant(status: number, error: string): Answer {
  return { status, body: JSON.stringify({ error, error_description: error }) }
}

function refuseToken(call: Call, state: AccountingState, realmId: string): Answer | null {
  const [, offered = ''] = /^Bearer (\S+)$/.exec(call.headers.authorization ?? '') ?? []
  const token = state.accessTokens[offered]
  if (!token || token.expiresAtMs <= Date.now()) {
    return { status: 401, body: makeLowerFault('3200', `Token expired: ${offered}`, 'AUTHENTICATION') }
  }
  if (token.realmId === realmId) return null
  return { status: 403, body: makeLowerFault('3100', 'Application not authorized', 'AUTHORIZATION') }
}

function dropAccess(state: AccountingState, realmId: string): void {
  for (const [token, owner] of Object.entries(state.accessTokens)) {
    if (owner.realmId === realmId) delete state.accessTokens[token]
  }
}

function getBooks(state: AccountingState, realmId: string): Books {
  state.realms[realmId] ??= openBooks()
  return state.realms[realmId]
}

/** The same request id gets the first answer again, a refusal too, whatever it asks now. */
function replay(books: Books, call: Call, url: URL, path: string): Answer {
  const requestId = url.searchParams.get('requestid')
  if (requestId !== null && (requestId === '' || requestId.length > 50)) {
    return { status: 400, body: makeFault('2050', 'Invalid requestid') }
  }
  const asked = digest(`${path} ${url.searchParams.get('operation') ?? ''} ${call.body}`)
  const first = requestId === null ? undefined : books.answers[requestId]
  if (requestId !== null && first) {
    if (first.digest !== asked) books.misused.push(requestId)
    return { status: first.status, body: first.body }
  }
  const given = answer(() => change(books, call, url, path, requestId))
  if (requestId !== null) books.answers[requestId] = { digest: asked, status: given.status, body: given.body }
  return given
}

function answer(work: () => Record<string, unknown>): Answer {
  try {
    return { status: 200, body: JSON.stringify({ ...work(), time: new Date().toISOString() }) }
  } catch (error) {
    if (error instanceof Refusal) return { status: 400, body: makeFault(error.code, error.message) }
    throw error
  }
}

function change(books: Books, call: Call, url: URL, path: string, requestId: string | null): Record<string, unknown> {
  const fields = readBody(call)
  if (path === 'customer') {
    const customer = createCustomer(books, fields)
    books.changes.push({ operation: 'customer', id: customer.Id, requestId })
    return { Customer: customer }
  }
  if (path !== 'invoice') throw new Refusal('2500', `Unsupported resource: ${path}`)
  const asked = url.searchParams.get('operation') ?? (fields.Id === undefined ? 'create' : 'update')
  const operation = OPERATIONS.find((each) => each === asked)
  if (!operation) throw new Refusal('2500', `Unsupported operation: ${asked}`)
  const invoice = WORK[operation](books, fields)
  books.changes.push({ operation, id: invoice.Id, requestId })
  return { Invoice: invoice }
}

const OPERATIONS = ['create', 'update', 'void', 'delete'] as const
const WORK = { create: createInvoice, update: updateInvoice, void: voidInvoice, delete: deleteInvoice }

function read(books: Books, url: URL, path: string): Record<string, unknown> {
  if (path === 'query') return { QueryResponse: runQuery(books, url.searchParams.get('query') ?? '') }
  const [, id] = /^invoice\/([^/]+)$/.exec(path) ?? []
  if (!id) throw new Refusal('2500', `Unsupported resource: ${path}`)
  return { Invoice: readInvoice(books, decodeURIComponent(id)) }
}

function readBody(call: Call): Record<string, unknown> {
  if (!call.headers['content-type']?.startsWith('application/json')) throw new Refusal('2500', 'JSON expected')
  try {
    const body: unknown = JSON.parse(call.body)
    if (typeof body === 'object' && body !== null) return { ...body }
  } catch {
    // Refused below, like anything else that is no object.
  }
  throw new Refusal('2010', 'The body cannot be read')
}
