import { env } from 'cloudflare:workers'
import { beforeEach, expect, it, vi } from 'vitest'
import { app } from '../../../src/app.ts'
import { send } from '../../support/app.ts'
import { wrapBindings } from '../../support/wrap-bindings.ts'

let now = Date.now()
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date'] })
  // Past the result that another test left in this isolate.
  now += 3_600_000
  vi.setSystemTime(now)
})

const get = (bindings = env) => send(new Request('https://api.test/health'), { env: bindings, app })

it('a request does not wait for checks that another one began more than two seconds ago', async () => {
  const begun = Promise.withResolvers<void>()
  const hanging = wrapBindings(env, (name, call) => {
    if (!name.startsWith('FILES.')) return call()
    begun.resolve()
    return new Promise(() => undefined)
  })
  const first = get(hanging)
  await begun.promise
  vi.setSystemTime(now + 2_001)
  expect((await get()).status).toBe(200)
  expect((await first).status).toBe(503)
})

it('a result is reused for less than five seconds', async () => {
  let checks = 0
  const counting = wrapBindings(env, (name, call) => {
    if (name.startsWith('FILES.')) checks++
    return call()
  })
  for (const [at, expected] of [
    [0, 1],
    [4_999, 1],
    [5_000, 2],
  ] as const) {
    vi.setSystemTime(now + at)
    await get(counting)
    expect(checks).toBe(expected)
  }
})
