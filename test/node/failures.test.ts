import { readFile } from 'node:fs/promises'
import { stripTypeScriptTypes } from 'node:module'
import { convertV4MiniflareOptions, Miniflare } from 'miniflare'
import { expect, it, onTestFinished, vi } from 'vitest'

const SOURCE = new URL('../../src/operation/health/failures.ts', import.meta.url)

/** Responds with 500 and counts the failure, as the application does. */
const FAILING = `
  import { countException, FailureCounter } from './failures.js'
  export { FailureCounter }
  export default {
    fetch(request, env, context) {
      countException(context, request.headers.get('x-request-id'))
      return Response.json({ error: {} }, { status: 500 })
    },
  }`

/** What the platform's metrics and logs are made of. */
const TAIL = `
  const seen = []
  export default {
    tail: (events) => void seen.push(...events.map(({ entrypoint, outcome, exceptions }) => ({
      entrypoint, outcome, exceptions: exceptions.map(({ name, message }) => ({ name, message })),
    }))),
    fetch: () => Response.json(seen),
  }`

it('counts a failure as an invocation that ended with an exception, while the response arrives', async () => {
  const source = stripTypeScriptTypes(await readFile(SOURCE, 'utf8'))
  const compatibilityDate = '2026-10-20'
  const runtime = new Miniflare(
    convertV4MiniflareOptions({
      host: '127.0.0.1',
      port: 0,
      cf: false,
      workers: [
        {
          name: 'api',
          compatibilityDate,
          modulesRoot: '/',
          modules: [
            { type: 'ESModule', path: '/index.js', contents: FAILING },
            { type: 'ESModule', path: '/failures.js', contents: source },
          ],
          tails: ['tail'],
        },
        { name: 'tail', compatibilityDate, modules: true, script: TAIL },
      ],
    }),
  )
  onTestFinished(() => runtime.dispose())
  const { origin } = await runtime.ready
  const response = await fetch(origin, { headers: { 'x-request-id': 'r-1' } })
  expect(response.status).toBe(500)
  expect(await response.json()).toEqual({ error: {} })

  const tail = await runtime.getWorker('tail')
  await vi.waitFor(async () => {
    const seen = await (await tail.fetch('http://tail/')).json()
    expect(seen).toContainEqual({
      entrypoint: 'FailureCounter',
      outcome: 'exception',
      exceptions: [{ name: 'InternalError', message: 'of request r-1' }],
    })
    expect(seen).toContainEqual(expect.objectContaining({ outcome: 'ok', exceptions: [] }))
  }, 10_000)
})
