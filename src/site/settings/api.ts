import { button, type Child, el } from './dom.ts'

export interface Page<Item> {
  data: Item[]
  pagination: { next_cursor: string | null; has_more: boolean }
}

/** A refusal by the API, or a missing response. */
class RequestError extends Error {
  readonly requestId: string | null
  readonly issues: readonly { path: string; message: string }[]

  constructor(message: string, requestId: string | null = null, issues: RequestError['issues'] = []) {
    super(message)
    this.requestId = requestId
    this.issues = issues
  }
}

/** The sign-in in front of this page has expired or is missing. */
class SignedOutError extends Error {}

/**
 * Calls the administration API as the person who is signed in.
 *
 * @param path below `/admin/v1`, such as `/me`
 * @throws RequestError, or SignedOutError when a new sign-in is needed
 */
export async function call<Body>(method: string, path: string, body?: unknown): Promise<Body> {
  const response = await fetch(`/admin/v1${path}`, {
    method,
    // The sign-in in front of the API redirects to its own HTML page, which is no response of the API.
    redirect: 'manual',
    headers: { accept: 'application/json', ...(body !== undefined && { 'content-type': 'application/json' }) },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  }).catch(() => {
    throw new RequestError('There was no response: check the connection, then try again.')
  })
  if (response.type === 'opaqueredirect' || response.status === 401) throw new SignedOutError()
  const text = await response.text()
  const requestId = response.headers.get('x-request-id')
  const json = parse(text)
  if (response.ok && json !== null) return json
  const error = json?.error
  const message = error?.message ?? `The service responded with status ${response.status}.`
  throw new RequestError(message, requestId, error?.details?.issues)
}

function parse(text: string) {
  try {
    return JSON.parse(text || '{}')
  } catch {
    return null
  }
}

/** Reads every item of a list; use it for short ones only. */
export async function listAll<Item>(path: string): Promise<Item[]> {
  const items: Item[] = []
  let cursor: string | null = null
  do {
    const query = `per_page=100${cursor === null ? '' : `&cursor=${encodeURIComponent(cursor)}`}`
    const page: Page<Item> = await call('GET', `${path}${path.includes('?') ? '&' : '?'}${query}`)
    items.push(...page.data)
    cursor = page.pagination.has_more ? page.pagination.next_cursor : null
  } while (cursor !== null && items.length < 1_000)
  return items
}

/** Shows an error at its source, with the id by which the operator finds it in the log. */
export function showError(error: unknown): HTMLElement {
  return el('div', { class: 'notice bad', role: 'alert' }, describe(error))
}

function describe(error: unknown): Child {
  if (error instanceof SignedOutError) {
    return [
      el('p', {}, el('strong', {}, 'Your session has ended.'), ' Sign in again to continue.'),
      button('Sign in again', () => location.reload()),
    ]
  }
  if (!(error instanceof RequestError)) {
    console.error(error)
    return el('p', {}, 'This page failed: reload it.')
  }
  const { message, issues, requestId } = error
  return [
    issues.length === 0
      ? el('p', {}, message)
      : el('ul', {}, ...issues.map(({ path, message }) => el('li', {}, path && el('code', {}, path), ` ${message}`))),
    requestId !== null && el('p', { class: 'quiet' }, 'Request ', el('code', {}, requestId)),
  ]
}
