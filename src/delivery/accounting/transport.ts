import * as z from 'zod/mini'
import { parseJson } from '../../kernel/http/messages.ts'
import { type AddressPolicy, callChecked, OutboundError } from '../../kernel/http/outbound.ts'
import { classify, type FailureClass } from './decisions.ts'

const TIMEOUT_MS = 15_000
/** The limit leaves room: an invoice of 500 lines has about 200 kB. */
const MAX_RESPONSE_BYTES = 4 * 1024 * 1024
/** Twice as many as the largest list of invoices has. */
const MAX_VALUES = 400_000
const MAX_MESSAGE = 300
const MAX_FAULT_ERRORS = 20
const MAX_XML_LENGTH = 16_384

/** A failed call to the accounting system. The message is for people and holds no secret. */
export class AccountingError extends Error {
  override readonly name = 'AccountingError'
  readonly failure: FailureClass
  /** The fault codes of the response, if it has any. */
  readonly codes: readonly string[]

  constructor(failure: FailureClass, message: string, codes: readonly string[] = []) {
    super(message)
    this.failure = failure
    this.codes = codes
  }
}

interface AccountingRequest {
  endpoint: 'api' | 'token'
  /** The address has not issued a token yet, so it may be wrong. */
  isUntried?: boolean
  url: string
  addresses: AddressPolicy
  authorization: string
  body?: string
  contentType?: string
  /** Redacted in every message, since the other side may echo them. */
  secrets: readonly string[]
}

/** Makes one call and parses its response. @throws AccountingError unless it is 2xx, valid by the schema and no fault */
export async function sendRequest<T>(schema: z.ZodMiniType<T>, request: AccountingRequest): Promise<T> {
  const { endpoint, isUntried, url, addresses, authorization, contentType, secrets, ...content } = request
  const headers = { authorization, accept: 'application/json', ...(contentType && { 'content-type': contentType }) }
  const call = { url, method: content.body === undefined ? 'GET' : 'POST', headers, ...content } as const
  const { status, body } = await callChecked(addresses, call, TIMEOUT_MS, async ({ status, readText }) => {
    return { status, body: await readText(MAX_RESPONSE_BYTES) }
  }).catch((error: unknown) => {
    throw error instanceof OutboundError ? noResponse(error.message) : error
  })
  const fault = readFault(body)
  if (isUntried && !fault && isNoTokenEndpoint(status, body)) {
    // Omit the query, which may hold a key.
    const { origin, pathname } = new URL(url)
    const address = `${origin}${pathname}`.slice(0, MAX_MESSAGE)
    const message = `There is no token endpoint at ${address}: set token_url of the accounting_sync integration.`
    throw new AccountingError('no_token_endpoint', message)
  }
  if (!fault && status >= 200 && status < 300) {
    const parsed = schema.safeParse(parseJson(body, MAX_VALUES))
    if (!parsed.success) throw noResponse('the response has another form')
    return parsed.data
  }

  const { codes, message, oauthError } = fault ?? NO_FAULT
  const what = [...codes, oauthError].filter(Boolean).join(', ')
  const text = `The accounting system responded with ${status}${what && ` (${what})`}${message && `: ${message}`}`
  const failure = classify({ endpoint, status, codes, oauthError })
  throw new AccountingError(failure, redactSecrets(text, secrets), codes)
}

function noResponse(why: string): AccountingError {
  return new AccountingError('transient', `The call to the accounting system failed: ${why}.`)
}

/** A page, a redirect or "not found" instead of the first tokens means a wrong address, so a retry cannot help. */
function isNoTokenEndpoint(status: number, body: string): boolean {
  if (status === 429 || status >= 500) return false
  return [404, 405, 410].includes(status) || (status >= 300 && status < 400) || body.trimStart().startsWith('<')
}

/** Codes are without leading zeros, in the order of the response; the message is the first error's. */
type Fault = { codes: string[]; message: string; oauthError: string | null }

const NO_FAULT: Fault = { codes: [], message: '', oauthError: null }

/** As `z.catch`, which would add 2 KB of helpers to the bundle. */
export function orElse<T extends z.core.$ZodType>(innerType: T, value: z.output<T>) {
  return new z.ZodMiniCatch({ type: 'catch', innerType, catchValue: () => value }) as z.ZodMiniCatch<T>
}

const text = orElse(z.optional(z.pipe(z.union([z.string(), z.number()]), z.transform(String))), undefined)
const faultError = z.object({ code: text, message: text, Message: text, detail: text, Detail: text })
const errorList = orElse(z.optional(z.union([z.array(faultError), faultError])), undefined)
const faultBody = z.object({
  Fault: orElse(z.optional(z.object({ Error: errorList })), undefined),
  fault: orElse(z.optional(z.object({ error: errorList })), undefined),
  error: orElse(z.optional(z.string()), undefined),
  error_description: text,
})

/**
 * Reads the fault of a response: `{Fault:{Error:[…]}}`, `{fault:{error:[…]}}`, their XML (sent for throttling even if
 * JSON was requested), or an OAuth `{error}`. Null for any other body, which means success under status 200.
 */
export function readFault(body: string): Fault | null {
  const start = body.trimStart()
  if (start.startsWith('<')) return readXmlFault(start.slice(0, MAX_XML_LENGTH))
  const parsed = faultBody.safeParse(parseJson(start, MAX_VALUES))
  if (!parsed.success) return null
  const { Fault, fault, error, error_description: description } = parsed.data
  if (!Fault && !fault) {
    return error === undefined ? null : { ...NO_FAULT, message: description ?? '', oauthError: error }
  }
  const errors = [Fault?.Error ?? fault?.error ?? []].flat().slice(0, MAX_FAULT_ERRORS)
  const [first] = errors
  const parts = [first?.Message ?? first?.message, first?.Detail ?? first?.detail].filter(Boolean)
  return {
    codes: errors.flatMap(({ code }) => (code === undefined ? [] : [trimCode(code)])),
    message: [...new Set(parts)].join(': '),
    oauthError: null,
  }
}

const FAULT_CODE = /<(?:\w+:)?Error\b[^<>]*?\bcode=["'](\d+)["']/g

function readXmlFault(xml: string): Fault | null {
  if (!/<(?:\w+:)?Fault[\s>]/.test(xml)) return null
  const codes = Array.from(xml.matchAll(FAULT_CODE), ([, code = '']) => trimCode(code))
  const [, message = ''] = /<(?:\w+:)?Message>([^<]*)</.exec(xml) ?? []
  return { codes: codes.slice(0, MAX_FAULT_ERRORS), message, oauthError: null }
}

const trimCode = (code: string) => code.trim().replace(/^0+(?=\d)/, '')

/** Matches probable secrets, such as an earlier token or base64. */
const LONG_WORD = /[\w.~+/=%-]{24,}/g
const REDACTED = '[secret]'

/** Redacts known and probable secrets before truncating to 300 characters, so that no part of a secret remains. */
export function redactSecrets(text: string, secrets: readonly string[]): string {
  const forms = secrets.filter(Boolean).flatMap((secret) => {
    const wellFormed = secret.toWellFormed()
    return [secret, encodeURIComponent(wellFormed), new URLSearchParams([['', wellFormed]]).toString().slice(1)]
  })
  // Replace the longest first, so that a secret containing another one is replaced whole.
  forms.sort((a, b) => b.length - a.length)
  const anyForm = new RegExp(forms.map(RegExp.escape).join('|') || '(?!)', 'g')
  const known = text.replaceAll(anyForm, REDACTED)
  const redacted = known.replaceAll(LONG_WORD, (word) => (/\d/.test(word) ? REDACTED : word))
  return redacted.length <= MAX_MESSAGE ? redacted : redacted.slice(0, MAX_MESSAGE).replace(/\[\w*$/, '')
}
