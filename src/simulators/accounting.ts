import { randomUUID } from 'node:crypto'
import { credentialsFor, makeFault, makeLowerFault, type Steering } from './accounting-data.ts'
import { Refusal } from './accounting-fields.ts'
import {
  createCustomer,
  createInvoice,
  deleteInvoice,
  digest,
  editByHand,
  makeRealm,
  type Realm,
  readInvoice,
  removeInvoice,
  runQuery,
  updateInvoice,
  voidInvoice,
} from './accounting-realm.ts'
import { type Call, type SimulatedResponse, type Simulator, startSimulator } from './kit.ts'

export * from './accounting-data.ts'

/** What one scope of the simulator holds; read it with the kit's control endpoint. */
export interface AccountingState {
  lifetimeSeconds: number
  /** By realm: its only valid refresh token, or null after the grant was revoked. */
  grants: Record<string, string | null>
  accessTokens: Record<string, { realmId: string; expiresAtMs: number }>
  realms: Record<string, Realm>
  /** Whether only the token host issues tokens. */
  tokensMoved: boolean
}

const STEERING = '/__books'
const TOKEN_PATH = '/oauth2/v1/tokens/bearer'
/** Marks a call that comes from the token host. */
const TOKEN_HOST_HEADER = 'x-token-host'
const NO_SUCH_PAGE = { status: 404, headers: { 'content-type': 'text/html' }, body: '<html>Not found</html>' }

/**
 * Starts the accounting system: tokens at `/oauth2/v1/tokens/bearer`, data at `/v3/company/{realm}/…`.
 *
 * A realm that is new to this run accepts any well-formed refresh token, so that a client with a rotated token continues
 * after the simulator restarts. From then on only the newest token is valid.
 */
export function startAccounting(port = 0): Promise<Simulator> {
  return startSimulator<AccountingState>(makeState, handle, port)
}

/** Starts the host that only issues the tokens of a system; its scopes are the system's. */
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

function handle(call: Call, state: AccountingState): SimulatedResponse {
  const url = new URL(call.path, 'http://simulator')
  if (url.pathname === STEERING && call.method === 'POST') return steer(state, JSON.parse(call.body))
  if (url.pathname === TOKEN_PATH && call.method === 'POST') {
    return state.tokensMoved && !call.headers[TOKEN_HOST_HEADER] ? NO_SUCH_PAGE : issueTokens(call, state)
  }
  const [, realmId, path] = /^\/v3\/company\/(\d+)\/(.+)$/.exec(url.pathname) ?? []
  if (!realmId || !path) return NO_SUCH_PAGE
  const refused = refuseToken(call, state, realmId)
  if (refused) return refused
  const realm = realmOf(state, realmId)
  return call.method === 'POST' ? replay(realm, call, url, path) : respond(() => read(realm, url, path))
}

function steer(state: AccountingState, order: Steering): SimulatedResponse {
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
      editByHand(realmOf(state, order.realm_id), order.id, order.fields)
      break
    case 'remove_invoice':
      removeInvoice(realmOf(state, order.realm_id), order.id)
      break
    case 'take_name':
      realmOf(state, order.realm_id).otherNames.push(order.name)
      break
    case 'set_active': {
      const customer = realmOf(state, order.realm_id).customers[order.id]
      if (customer) customer.Active = order.active
      break
    }
    case 'set_taxes': {
      const { taxes } = realmOf(state, order.realm_id)
      taxes.codes = order.codes ?? taxes.codes
      if (order.automated_rate !== undefined) taxes.automatedRate = order.automated_rate
      break
    }
    case 'move_tokens':
      state.tokensMoved = true
      break
    case 'close_books':
      realmOf(state, order.realm_id).closedUntil = order.until
      break
  }
  return { status: 200, body: '{}' }
}

function issueTokens(call: Call, state: AccountingState): SimulatedResponse {
  const form = new URLSearchParams(call.body)
  const offered = form.get('refresh_token') ?? ''
  const [, realmId = ''] = /^refresh-(\d+)-/.exec(offered) ?? []
  const { client_id: clientId, client_secret: clientSecret } = credentialsFor(realmId)
  const basic = `Basic ${Buffer.from(`${clientId}:${clientSecret}`).toString('base64')}`
  if (call.headers.authorization !== basic) return refuseGrant(401, 'invalid_client')
  if (form.get('grant_type') !== 'refresh_token') return refuseGrant(400, 'unsupported_grant_type')
  const valid = realmId in state.grants ? state.grants[realmId] : offered
  if (!realmId || valid !== offered) return refuseGrant(400, 'invalid_grant')

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

function refuseGrant(status: number, error: string): SimulatedResponse {
  return { status, body: JSON.stringify({ error, error_description: error }) }
}

function refuseToken(call: Call, state: AccountingState, realmId: string): SimulatedResponse | null {
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

function realmOf(state: AccountingState, realmId: string): Realm {
  state.realms[realmId] ??= makeRealm()
  return state.realms[realmId]
}

/** A repeated request id gets its first response again, even a refusal, whatever the request is now. */
function replay(realm: Realm, call: Call, url: URL, path: string): SimulatedResponse {
  const requestId = url.searchParams.get('requestid')
  if (requestId !== null && (requestId === '' || requestId.length > 50)) {
    return { status: 400, body: makeFault('2050', 'Invalid requestid') }
  }
  const asked = digest(`${path} ${url.searchParams.get('operation') ?? ''} ${call.body}`)
  const first = requestId === null ? undefined : realm.responses[requestId]
  if (requestId !== null && first) {
    if (first.digest !== asked) realm.misused.push(requestId)
    return { status: first.status, body: first.body }
  }
  const response = respond(() => change(realm, call, url, path, requestId))
  if (requestId !== null) realm.responses[requestId] = { digest: asked, status: response.status, body: response.body }
  return response
}

function respond(work: () => Record<string, unknown>): SimulatedResponse {
  try {
    return { status: 200, body: JSON.stringify({ ...work(), time: new Date().toISOString() }) }
  } catch (error) {
    if (error instanceof Refusal) return { status: 400, body: makeFault(error.code, error.message) }
    throw error
  }
}

function change(realm: Realm, call: Call, url: URL, path: string, requestId: string | null): Record<string, unknown> {
  const fields = readBody(call)
  if (path === 'customer') {
    const customer = createCustomer(realm, fields)
    realm.changes.push({ operation: 'customer', id: customer.Id, requestId })
    return { Customer: customer }
  }
  if (path !== 'invoice') throw new Refusal('2500', `Unsupported resource: ${path}`)
  const asked = url.searchParams.get('operation') ?? (fields.Id === undefined ? 'create' : 'update')
  const operation = OPERATIONS.find((each) => each === asked)
  if (!operation) throw new Refusal('2500', `Unsupported operation: ${asked}`)
  const invoice = WORK[operation](realm, fields)
  realm.changes.push({ operation, id: invoice.Id, requestId })
  return { Invoice: invoice }
}

const OPERATIONS = ['create', 'update', 'void', 'delete'] as const
const WORK = { create: createInvoice, update: updateInvoice, void: voidInvoice, delete: deleteInvoice }

function read(realm: Realm, url: URL, path: string): Record<string, unknown> {
  if (path === 'query') return { QueryResponse: runQuery(realm, url.searchParams.get('query') ?? '') }
  const [, id] = /^invoice\/([^/]+)$/.exec(path) ?? []
  if (!id) throw new Refusal('2500', `Unsupported resource: ${path}`)
  return { Invoice: readInvoice(realm, decodeURIComponent(id)) }
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
