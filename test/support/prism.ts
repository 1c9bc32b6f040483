import { inject } from 'vitest'

/** Taken before any test puts another one in its place. */
const fetchNow = globalThis.fetch

/** Where `npm run prism` takes exchanges, or '' in any other run. */
const recorder = inject('prismRecorder')

/** The request with a body that can still be read once it was sent, where `npm run prism` will want it. */
export function keepForPrism(sent: Request): Request | null {
  return recorder === '' ? null : sent.clone()
}

/**
 * Has the validating proxy judge a request and the answer that the Worker gave to it.
 *
 * @throws Error with what the proxy found
 */
export async function passThroughPrism(kept: Request | null, response: Response): Promise<void> {
  if (!kept) return
  const url = new URL(kept.url)
  const form = new FormData()
  const head = {
    method: kept.method,
    path: url.pathname + url.search,
    requestHeaders: [...kept.headers],
    status: response.status,
    responseHeaders: [...response.headers],
  }
  form.set('head', JSON.stringify(head))
  form.set('request', new Blob([await readBody(kept, response)]))
  form.set('response', new Blob([await response.clone().arrayBuffer()]))
  const verdict = await fetchNow(`${recorder}/exchanges`, { method: 'POST', body: form })
  if (verdict.status !== 204) throw new Error(await verdict.text())
}

/** What was too long for the API need not have an end. */
async function readBody(kept: Request, response: Response): Promise<ArrayBuffer> {
  if (response.status !== 413) return kept.arrayBuffer()
  await kept.body?.cancel()
  return new ArrayBuffer(0)
}
