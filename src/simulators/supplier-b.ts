import { type Call, type SimulatedResponse, type Simulator, startSimulator } from './kit.ts'
import {
  type Account,
  CALLS_PER_MINUTE,
  CREDENTIALS,
  OTHER_CREDENTIALS,
  productsOf,
  STYLES,
  searchStyles,
} from './supplier-b-catalogue.ts'

export { CREDENTIALS } from './supplier-b-catalogue.ts'

const WINDOW_MS = 60_000

/** Calls of each account in its current minute. */
type State = Record<string, { startedMs: number; calls: number }>

/**
 * Starts a local supplier_b: a REST service under `/v2` that knows {@link CREDENTIALS} and {@link OTHER_CREDENTIALS} and
 * lets each of them call 60 times a minute.
 */
export function startSupplierB(port = 0): Promise<Simulator> {
  return startSimulator<State>(() => ({}), handle, port)
}

function handle(call: Call, state: State): SimulatedResponse {
  const account = [CREDENTIALS, OTHER_CREDENTIALS].find((each) => authorizationOf(each) === call.headers.authorization)
  if (!account) return json(401, { code: 401, message: 'Authorization failed. Check account number and API key.' })
  const { left, resetSeconds } = countCall(state, account, Date.now())
  const headers = { 'x-rate-limit-remaining': String(Math.max(0, left)) }
  if (left < 0) {
    const refusal = json(429, { code: 429, message: 'Too many requests.' })
    return { ...refusal, headers: { ...refusal.headers, ...headers, 'retry-after': String(resetSeconds) } }
  }
  const found = route(call, account)
  return { ...found, headers: { ...found.headers, ...headers } }
}

function countCall(state: State, account: Account, nowMs: number): { left: number; resetSeconds: number } {
  const known = state[account.account_number]
  const window = known && nowMs - known.startedMs < WINDOW_MS ? known : { startedMs: nowMs, calls: 0 }
  window.calls += 1
  state[account.account_number] = window
  return {
    left: CALLS_PER_MINUTE - window.calls,
    resetSeconds: Math.ceil((window.startedMs + WINDOW_MS - nowMs) / 1000),
  }
}

function authorizationOf({ account_number, api_key }: Account): string {
  return `Basic ${Buffer.from(`${account_number}:${api_key}`).toString('base64')}`
}

function route(call: Call, account: Account): SimulatedResponse {
  const url = new URL(call.path, 'http://supplier-b.example')
  const query = new Map([...url.searchParams].map(([name, value]) => [name.toLowerCase(), value]))
  const fields = query.get('fields')?.split(',')
  if (call.method !== 'GET') return wrongRoute(url)

  if (/^\/v2\/styles\/?$/i.test(url.pathname)) return rows(searchStyles(query.get('search') ?? ''), fields)

  const [, sku] = /^\/v2\/products\/([^/]*)$/i.exec(url.pathname) ?? []
  if (sku === undefined) return wrongRoute(url)
  if (sku !== '') return rows(productsBySku(decodeURIComponent(sku).split(','), account), fields)

  const ids = query.get('styleid')
  if (ids !== undefined && !/^\d+(,\d+)*$/.test(ids)) {
    return json(400, {
      code: 400,
      message: 'Invalid identifier.',
      errors: [{ field: 'styleid', message: 'Not a number.' }],
    })
  }
  const names = query.get('style') ?? ids
  if (names === undefined) {
    return json(400, { code: 400, message: 'A filter is needed.', errors: [{ field: 'style', message: 'Required.' }] })
  }
  return rows(productsByStyle(names.split(','), account), fields)
}

// `style` takes an id, a part number or "Brand Name".
function productsByStyle(names: string[], account: Account) {
  const wanted = names.map((name) => name.trim().toLowerCase())
  return STYLES.filter(({ styleID, partNumber, brandName, styleName }) =>
    [String(styleID), partNumber, `${brandName} ${styleName}`.toLowerCase()].some((name) => wanted.includes(name)),
  ).flatMap((style) => productsOf(style, account))
}

function productsBySku(skus: string[], account: Account) {
  return STYLES.flatMap((style) => productsOf(style, account)).filter(({ sku, gtin, skuID_Master }) =>
    [sku, gtin, String(skuID_Master)].some((name) => skus.includes(name)),
  )
}

function rows(found: readonly object[], fields: readonly string[] | undefined): SimulatedResponse {
  if (found.length === 0) {
    const message = 'Requested item(s) were not found or have been discontinued.'
    return json(404, { errors: [{ field: 'Identifier', message }] })
  }
  const wanted = fields?.map((field) => field.trim().toLowerCase())
  const isWanted = (name: string) => !wanted || wanted.includes(name.toLowerCase())
  return json(
    200,
    found.map((row) => Object.fromEntries(Object.entries(row).filter(([name]) => isWanted(name)))),
  )
}

function wrongRoute(url: URL): SimulatedResponse {
  return json(404, {
    message: `No HTTP resource was found that matches the request URI '${url.pathname}'.`,
    messageDetail: 'No type was found that matches the controller.',
  })
}

function json(status: number, body: unknown): SimulatedResponse {
  return { status, headers: { 'content-type': 'application/json; charset=utf-8' }, body: JSON.stringify(body) }
}
