import * as z from 'zod'

/** A request of the suite, with its response. Bodies are as sent over the wire. */
export interface Exchange {
  method: string
  path: string
  requestHeaders: [string, string][]
  requestBody: Buffer
  status: number
  responseHeaders: [string, string][]
  responseBody: Buffer
}

const headers = z.array(z.tuple([z.string(), z.string()]))
const headSchema = z.object({
  method: z.string(),
  path: z.string(),
  requestHeaders: headers,
  status: z.number(),
  responseHeaders: headers,
})

/** @throws Error where the form is not one of test/support/prism.ts */
export async function readExchange(form: FormData): Promise<Exchange> {
  const read = async (name: string): Promise<Buffer> => {
    const part = form.get(name)
    if (part === null) throw new Error(`The exchange has no ${name}.`)
    return typeof part === 'string' ? Buffer.from(part) : Buffer.from(await part.arrayBuffer())
  }
  const head = headSchema.parse(JSON.parse((await read('head')).toString()))
  return { ...head, requestBody: await read('request'), responseBody: await read('response') }
}

const headerOf = (pairs: [string, string][], name: string) => pairs.find(([each]) => each.toLowerCase() === name)?.[1]

export const BASE = '/api/v1'
/** The proxy refuses to read a longer one. */
const WELL_FORMED_TYPE = /^[\w!#$%&'*+.^`|~-]+\/[\w!#$%&'*+.^`|~-]+ *(;|$)/
const PROXY_BODY_LIMIT_BYTES = 10 * 1_000_000

export interface Exclusion {
  reason: string
  applies: (exchange: Exchange) => boolean
}

/** What the proxy cannot check. An excluded exchange counts for the first reason that applies. */
export const EXCLUSIONS: readonly Exclusion[] = [
  {
    reason: 'OPTIONS: a preflight belongs to the browser, no operation is described for it',
    applies: ({ method }) => method === 'OPTIONS',
  },
  {
    reason: 'HEAD: works wherever GET does and is not described of its own',
    applies: ({ method }) => method === 'HEAD',
  },
  {
    reason: 'outside the paths that the document has: its server is /api/v1, which also serves the document itself',
    applies: ({ path }) => !path.startsWith(`${BASE}/`) || path.startsWith(`${BASE}/openapi.json`),
  },
  {
    reason: 'a trailing slash: the API takes it for the same path, the proxy does not',
    applies: ({ path }) => new URL(path, 'http://any').pathname.endsWith('/'),
  },
  {
    reason: 'broken percent-encoding in the path: it ends the process of the proxy',
    applies: ({ path }) => !isDecodable(new URL(path, 'http://any').pathname),
  },
  {
    reason: 'a body over 10 MB: the proxy does not read it',
    applies: ({ requestBody }) => requestBody.length > PROXY_BODY_LIMIT_BYTES,
  },
  {
    reason: '413: a body over the limit may be endless, so it is not recorded',
    applies: ({ status }) => status === 413,
  },
  {
    reason: 'a Content-Type that is not well-formed: the proxy returns 500',
    applies: ({ requestHeaders }) => !WELL_FORMED_TYPE.test(headerOf(requestHeaders, 'content-type') ?? 'none/none'),
  },
  {
    reason: 'a body with a byte order mark: the proxy never responds',
    applies: ({ requestBody }) => requestBody.subarray(0, 3).toString('hex') === 'efbbbf',
  },
  {
    reason: 'a body that is not JSON with a JSON type: the proxy responds by itself',
    applies: ({ requestBody, requestHeaders }) =>
      requestBody.length > 0 &&
      /^application\/([^;]+\+)?json\b/.test(headerOf(requestHeaders, 'content-type') ?? '') &&
      !isJson(requestBody),
  },
  {
    reason: 'a JSON body of very deep nesting: the recursion of the proxy ends',
    applies: ({ requestBody }) => requestBody.toString('latin1').includes('['.repeat(500)),
  },
  {
    reason:
      'a refused request with text outside of Latin-1: the proxy cannot put it into its header, and its process ends',
    applies: ({ status, path, requestBody }) =>
      status === 400 && (/%(c[4-9a-f]|[d-f])/i.test(path) || /[^\0-\xff]/.test(requestBody.toString())),
  },
  {
    reason: 'an external id that is the last part of another path: the proxy takes that operation',
    applies: ({ path }) => path === `${BASE}/orders/by-external-id/invoice-items`,
  },
  {
    reason: 'a body with GET: the proxy refuses to pass it on',
    applies: ({ method, requestBody }) => method === 'GET' && requestBody.length > 0,
  },
]

export interface Tolerance {
  reason: string
  /** @param text such as `query.email: must match format "email"` */
  applies: (exchange: Exchange, text: string) => boolean
}

/** Requests that are carried out although the document does not describe them so: the API takes more than it says. */
export const TOLERANCES: readonly Tolerance[] = [
  {
    reason: 'white space around an email, which the API trims',
    applies: ({ path, requestBody }, text) => {
      const [, place] = /^(query|body)\.(?:account_)?email: .*must match (?:pattern|format)/.exec(text) ?? []
      if (place === 'query') return /email=(\+|%20)|(\+|%20)(&|$)/.test(path)
      return place === 'body' && /email":"(\s|\\[tnr])|(\s|\\[tnr])"/.test(requestBody.toString())
    },
  },
  {
    reason: 'a + of an email or a time zone that form decoding made a space',
    applies: ({ path }, text) => {
      const [, name] = /^query\.((?:account_)?email|updated_since): /.exec(text) ?? []
      return name !== undefined && new RegExp(`[?&]${name}=[^&]*(\\+|%20)`).test(path)
    },
  },
  {
    reason: 'a repeated status, which the API takes as well as the list of the document',
    applies: ({ path }, text) => text.startsWith('query.status: ') && /[?&]status=.*&status=/.test(path),
  },
  {
    reason: 'a wrong operation of a batch, whose refusal is in the response',
    applies: ({ path, status }, text) =>
      path === `${BASE}/batch` && status === 200 && text.startsWith('body.operations.'),
  },
  {
    reason: 'an ill-formed X-Request-Id or X-Bookmark, which the API replaces or ignores',
    applies: (_, text) => /^header\.x-(request-id|bookmark): .*must match pattern/.test(text),
  },
  {
    reason: 'the scheme of the token in another case: HTTP ignores it (RFC 9110, 11.1), the proxy does not',
    applies: ({ requestHeaders }, text) => {
      const [scheme = ''] = headerOf(requestHeaders, 'authorization')?.split(' ') ?? []
      return text === ': Invalid security scheme used' && scheme !== 'Bearer' && scheme.toLowerCase() === 'bearer'
    },
  },
]

const isJson = (bytes: Buffer) => succeeds(() => JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes)))

const isDecodable = (text: string) => succeeds(() => decodeURIComponent(text))

function succeeds(work: () => unknown): boolean {
  try {
    work()
    return true
  } catch {
    return false
  }
}
