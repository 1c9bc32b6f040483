import { env } from 'cloudflare:workers'
import { expect, it, vi } from 'vitest'
import { app } from '../../../src/app.ts'
import { send } from '../../support/app.ts'
import { wrapBindings } from '../../support/wrap-bindings.ts'

const now = Date.now()
const get = (bindings = env) => send(new Request('https://api.test/health'), { env: bindings, app })

it('a request does not wait for checks that another one began more than two seconds ago', async () => {
  vi.useFakeTimers({ toFake: ['Date'], now })
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
