import { inject } from 'vitest'

/** Taken before any test puts another one in its place. */
const fetchNow = globalThis.fetch

/** Where `npm run prism` takes exchanges, or '' in any other run. */
const recorder = inject('prismRecorder')

/** A copy of the request, so that its body can be read again, in a run of `npm run prism`; else null. */
export function cloneForPrism(sent: Request): Request | null {
  return recorder === '' ? null : sent.clone()
}

/**
 * Has the validating proxy check a request and the Worker's response.
 *
 * @throws Error with what the proxy found
 */
export async function passThroughPrism(copy: Request | null, response: Response): Promise<void> {
  if (!copy) return
  const url = new URL(copy.url)
  const form = new FormData()
  const head = {
    method: copy.method,
    path: url.pathname + url.search,
    requestHeaders: [...copy.headers],
    status: response.status,
    responseHeaders: [...response.headers],
  }
  form.set('head', JSON.stringify(head))
  form.set('request', new Blob([await readBody(copy, response)]))
  form.set('response', new Blob([await response.clone().arrayBuffer()]))
  const verdict = await fetchNow(`${recorder}/exchanges`, { method: 'POST', body: form })
  if (verdict.status !== 204) throw new Error(await verdict.text())
}

/** A body over the API's limit may be endless. */
async function readBody(copy: Request, response: Response): Promise<ArrayBuffer> {
  if (response.status !== 413) return copy.arrayBuffer()
  await copy.body?.cancel()
  return new ArrayBuffer(0)
}
