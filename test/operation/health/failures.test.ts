import { env, exports } from 'cloudflare:workers'
import { describe, expect, it } from 'vitest'
import { app } from '../../../src/app.ts'
import { bodyOf, mintCompany, request } from '../../support/app.ts'
import { wrapBindings } from '../../support/wrap-bindings.ts'

const { token } = await mintCompany({ home: 'DB' })

/** Sends a request whose database fails as `thrown` says; `counted` has the calls of the counter. */
async function fail(thrown: Error | null, counter = async () => new Response(), sent = token) {
  const bindings = wrapBindings(env, (name, work) => (name === 'DB.batch' && thrown ? Promise.reject(thrown) : work()))
  const counted: [string, RequestInit][] = []
  const work: Promise<unknown>[] = []
  const context = {
    waitUntil: (promise: Promise<unknown>) => void work.push(promise),
    passThroughOnException: () => undefined,
    props: {},
    exports: {
      FailureCounter: {
        fetch: (...input: [string, RequestInit]) => {
          counted.push(input)
          return counter()
        },
      },
    },
  }
  const response = await bodyOf(await app.fetch(request(sent, 'GET', '/clients'), bindings, context))
  return { response, counted, work: await Promise.allSettled(work) }
}

describe('a failure', () => {
  it('is counted by the platform, under the id of the request, and returned in the error shape', async () => {
    const { response, counted } = await fail(new Error('hunter2'))
    const id = response.headers.get('x-request-id')
    expect(response).toMatchObject({ status: 500, body: { error: { code: 'internal_error' } } })
    expect(counted).toEqual([['https://failure.internal/', { headers: { 'x-request-id': id } }]])
  })

  it('is one only where the response is a 500', async () => {
    expect(await fail(null)).toMatchObject({ response: { status: 200 }, counted: [] })
    expect(await fail(null, undefined, 'unknown')).toMatchObject({ response: { status: 401 }, counted: [] })
  })

  it('changes neither the response nor the work after it when it cannot be counted', async () => {
    const { response, work } = await fail(new Error('hunter2'), () => Promise.reject(new Error('x')))
    expect(response.status).toBe(500)
    expect(work.map(({ status }) => status)).not.toContain('rejected')
  })
})

it('throws nothing but the id of the request', async () => {
  const call = exports.FailureCounter.fetch('https://failure.internal/', { headers: { 'x-request-id': 'r-1' } })
  await expect(call).rejects.toMatchObject({ name: 'InternalError', message: 'of request r-1' })
})
