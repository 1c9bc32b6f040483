import type { Failure } from './decisions.ts'
import { parseJson, readFault } from './faults.ts'
import { redactSecrets } from './redact.ts'

export const TIMEOUT_MS = 15_000
/** An invoice of 500 lines is about 200 kB. */
const LARGEST_ANSWER_BYTES = 4 * 1024 * 1024
const LONGEST_MESSAGE = 300
const NO_SUCH_ENDPOINT: readonly number[] = [404, 405, 410]

const WORDS: Record<Extract<Failure, { kind: 'no_answer' }>['reason'], string> = {
  timeout: 'The accounting system did not answer in time.',
  network: 'The accounting system could not be reached.',
  cut: 'The answer of the accounting system broke off.',
  too_large: 'The answer of the accounting system was too large.',
  malformed: 'The answer of the accounting system could not be read.',
}

/** A call to the accounting system that did not end well. The message is for people and holds no secret. */
export class AccountingError extends Error {
  override readonly name = 'AccountingError'
  readonly failure: Failure

  constructor(failure: Failure, message: string) {
    super(message)
    this.failure = failure
  }
}

export function makeNoAnswer(reason: Extract<Failure, { kind: 'no_answer' }>['reason']): AccountingError {
  return new AccountingError({ kind: 'no_answer', reason }, WORDS[reason])
}

export interface Request {
  endpoint: 'api' | 'token'
  method: 'GET' | 'POST'
  url: string
  headers: Record<string, string>
  body?: string
  timeoutMs: number
  /** Redacted in every message, in case the other side echoes them. */
  secrets: readonly string[]
}

/**
 * Makes one call and gives the JSON of its answer.
 *
 * Redirects are not followed, since they would carry the credentials elsewhere; the time limit covers the body too.
 *
 * @throws AccountingError for anything but a 2xx answer with JSON and without a fault
 */
export async function sendRequest(request: Request): Promise<unknown> {
  const { status, body } = await fetchText(request)
  const fault = readFault(body)
  if (request.endpoint === 'token' && !fault && isNoTokenEndpoint(status, body)) throw makeNoTokenEndpoint(request.url)
  const succeeded = status >= 200 && status < 300
  if (!fault && succeeded) {
    const json = parseJson(body)
    if (json === undefined) throw makeNoAnswer('malformed')
    return json
  }

  const { codes, message, oauthError } = fault ?? { codes: [], message: '', oauthError: null }
  const failure: Failure = { kind: 'answered', endpoint: request.endpoint, status, codes, oauthError }
  const what = [...codes, oauthError].filter(Boolean).join(', ')
  const text = `The accounting system answered ${status}${what && ` (${what})`}${message && `: ${message}`}`
  throw new AccountingError(failure, redactSecrets(text, request.secrets, LONGEST_MESSAGE))
}

async function fetchText(request: Request): Promise<{ status: number; body: string }> {
  // Not AbortSignal.timeout, whose timer would outlive the call and keep the object that made it in memory.
  const timeout = new AbortController()
  const timer = setTimeout(() => timeout.abort(), request.timeoutMs)
  try {
    return await fetchWithin(timeout.signal, request)
  } finally {
    clearTimeout(timer)
  }
}

async function fetchWithin(signal: AbortSignal, request: Request): Promise<{ status: number; body: string }> {
  const { url, method, headers, body } = request
  let response: Response
  try {
    response = await fetch(url, {
      method,
      headers,
      redirect: 'manual',
      signal,
      ...(body === undefined ? {} : { body }),
    })
  } catch {
    // What was thrown is dropped: its text may hold the address with its query.
    throw makeNoAnswer(signal.aborted ? 'timeout' : 'network')
  }
  try {
    return { status: response.status, body: await readCapped(response) }
  } catch (error) {
    if (error instanceof AccountingError) throw error
    throw makeNoAnswer(signal.aborted ? 'timeout' : 'cut')
  }
}

async function readCapped(response: Response): Promise<string> {
  if (!response.body) return ''
  const reader = response.body.getReader()
  const decoder = new TextDecoder()
  let sizeBytes = 0
  let text = ''
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return text + decoder.decode()
    sizeBytes += value.byteLength
    if (sizeBytes > LARGEST_ANSWER_BYTES) {
      await reader.cancel()
      throw makeNoAnswer('too_large')
    }
    text += decoder.decode(value, { stream: true })
  }
}

/** A page, a redirect or "not found" where tokens should be: it is the wrong address, and stays so. */
function isNoTokenEndpoint(status: number, body: string): boolean {
  if (status === 429 || status >= 500) return false
  return NO_SUCH_ENDPOINT.includes(status) || (status >= 300 && status < 400) || body.trimStart().startsWith('<')
}

/** The query is left out: it may hold a key. */
function makeNoTokenEndpoint(url: string): AccountingError {
  const { origin, pathname } = new URL(url)
  const address = `${origin}${pathname}`.slice(0, LONGEST_MESSAGE)
  const message = `There is no token endpoint at ${address}: set token_url of the accounting_sync integration.`
  return new AccountingError({ kind: 'no_token_endpoint' }, message)
}
