import * as z from 'zod/mini'
import { CommandError, print, warn } from './command.ts'

const TIMEOUT_MS = 30_000
const PAGE_SIZE = 100
const PERMISSIONS = 'D1 Edit, Workers KV Storage Edit, Workers R2 Storage Edit and Workers Scripts Edit'

/** Every response of the API: https://developers.cloudflare.com/fundamentals/api/how-to/make-api-calls/ */
const envelope = z.object({
  success: z.boolean(),
  errors: z.array(z.object({ code: z.number(), message: z.string() })),
  result: z.optional(z.unknown()),
})

interface Call {
  body?: object | FormData
  headers?: Record<string, string>
}

/** The API of one account. Paths are below the account, without a slash at their start. */
export type Account = ReturnType<typeof openAccount>

/**
 * @param isDryRun reads, but changes nothing, and prints each call; without credentials, as if the account were empty
 * @throws CommandError when the variables that name and open the account are absent or malformed
 */
export function openAccount(isDryRun: boolean, env = process.env) {
  const { CLOUDFLARE_ACCOUNT_ID, CLOUDFLARE_API_TOKEN: token } = env
  // wrangler reads the same variables.
  const { CLOUDFLARE_API_BASE_URL: baseUrl = 'https://api.cloudflare.com/client/v4' } = env
  if (!(CLOUDFLARE_ACCOUNT_ID && token) && !isDryRun) {
    throw new CommandError(`Set CLOUDFLARE_ACCOUNT_ID, and CLOUDFLARE_API_TOKEN to a token with ${PERMISSIONS}.`)
  }
  if (!token) warn('Without CLOUDFLARE_API_TOKEN: these are the calls for an empty account.')
  const id = CLOUDFLARE_ACCOUNT_ID || 'ACCOUNT_ID'
  if (CLOUDFLARE_ACCOUNT_ID && !/^[0-9a-f]{32}$/.test(id)) {
    throw new CommandError('CLOUDFLARE_ACCOUNT_ID must be 32 hexadecimal digits.')
  }

  async function request(method: string, path: string, { body, headers = {} }: Call = {}) {
    const isChange = method !== 'GET'
    if (isDryRun) print(describeCall(method, `/accounts/${id}/${path}`, body, headers))
    if (isDryRun && (isChange || !token)) return { status: 404, errors: [], result: null }
    const isForm = body instanceof FormData
    const response = await fetch(`${baseUrl}/accounts/${id}/${path}`, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        ...(body && !isForm && { 'content-type': 'application/json' }),
        ...headers,
      },
      redirect: 'error',
      signal: AbortSignal.timeout(TIMEOUT_MS),
      ...(body && { body: isForm ? body : JSON.stringify(body) }),
    }).catch((error: Error) => {
      throw failed(method, path, `no response (${error.cause instanceof Error ? error.cause.message : error.message}).`)
    })
    const { status } = response
    const { success, data } = envelope.safeParse(await response.json().catch(() => null))
    if (!success) throw failed(method, path, `a response of status ${status} that is not of this API.`)
    const isAbsent = status === 404 && !isChange
    if (data.success || isAbsent) return { status, errors: data.errors, result: data.result }
    const messages = data.errors.map(({ code, message }) => `${message} (${code})`)
    const hint = status === 401 || status === 403 ? ` CLOUDFLARE_API_TOKEN needs ${PERMISSIONS}.` : ''
    throw failed(method, path, `${[status, ...messages].join(' ')}.${hint}`)
  }

  return {
    id,
    isDryRun,
    /** What a path has, or null when there is nothing. */
    async find<T>(schema: z.ZodMiniType<T>, path: string, headers = {}): Promise<T | null> {
      const { status, result } = await request('GET', path, { headers })
      return status === 404 ? null : schema.parse(result)
    },
    /** All pages of a list. */
    async list<T>(schema: z.ZodMiniType<T>, path: string): Promise<T[]> {
      const rows: T[] = []
      for (let page = 1; ; page++) {
        const { status, errors, result } = await request('GET', `${path}?page=${page}&per_page=${PAGE_SIZE}`)
        const [{ message, code } = { message: 'not found', code: status }] = errors
        // Only an unknown account has no list.
        if (status === 404 && !isDryRun) throw failed('GET', path, `404 ${message} (${code}).`)
        const found = z.array(schema).parse(result ?? [])
        rows.push(...found)
        if (found.length < PAGE_SIZE) return rows
      }
    },
    /** Changes something; a dry run prints the call instead and gets null. */
    async change<T>(schema: z.ZodMiniType<T>, method: string, path: string, call: Call): Promise<T | null> {
      const { result } = await request(method, path, call)
      return isDryRun ? null : schema.parse(result)
    },
    /** Prints what became of a resource. A dry run has printed its calls instead. */
    report(what: string, outcome: string) {
      if (outcome === 'exists' || !isDryRun) print(`${what}: ${outcome}`)
    },
  }
}

function failed(method: string, path: string, problem: string): CommandError {
  return new CommandError(`${method} ${path}: ${problem} Run the command again: it continues where it stopped.`)
}

/** A call as `--dry-run` prints it: values of secrets are left out. */
function describeCall(method: string, path: string, body: Call['body'], headers: Record<string, string>): string {
  const names = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
  const hideText = (key: string, value: unknown) => (key === 'text' ? '…' : value)
  const content = body instanceof FormData ? [...body.keys()].join(' and ') : body && JSON.stringify(body, hideText)
  return [method, path, ...names, content].filter(Boolean).join(' ')
}
