import type { Client } from 'openapi-fetch'
import type { components, paths } from 'published-description'

export type Api = Client<paths>
export type Schemas = components['schemas']

interface Result<Data> {
  data?: Data
  error?: Schemas['ErrorResponse']
  response: Response
}

/** The body of a successful call. All errors have one shape. @throws Error with the API's message */
export async function take<Data>(call: Result<Data> | Promise<Result<Data>>): Promise<Data> {
  const { data, error, response } = await call
  if (data !== undefined) return data
  if (!error) throw new Error(`${response.url} responded with ${response.status} and no error.`)
  const { code, message, details } = error.error
  const issues = details && 'issues' in details ? details.issues.map(({ path, message }) => `${path} ${message}`) : []
  throw new Error(`${response.url} responded with ${response.status} ${code}: ${message} ${issues.join('; ')}`)
}

/** For `If-Match`, which names the version that a change is based on. */
export function tagOf({ version }: { version: number }): string {
  return `"${version}"`
}

/** For `If-Match` or `If-None-Match`. */
export function etagOf({ response }: { response: Response }): string {
  return response.headers.get('etag') ?? ''
}

/** For `Idempotency-Key`: a new one for each new request. */
export function newKey(): string {
  return crypto.randomUUID()
}
