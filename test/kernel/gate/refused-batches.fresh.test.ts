import { afterEach, expect, it, vi } from 'vitest'
import { DATABASE_LIMIT_MS } from '../../../src/kernel/gate/limits.ts'
import { mintCompany, request, send } from '../../support/app.ts'
import { moveTime, stopTime } from '../../support/time.ts'
import { markUsed, memory, timedDatabase, withLimiter } from './support.ts'

// The least network time belongs to the isolate: in one with other tests it would be that of the local database.
const NETWORK_MS = 200

afterEach(() => {
  vi.useRealTimers()
})

it('charges a refused batch its time without the network', async () => {
  await mintCompany({ home: 'DB' })
  const { token } = await mintCompany({ home: 'DB' })
  await markUsed(token)
  stopTime()
  let batchMs = NETWORK_MS
  const { DB } = timedDatabase(0, async () => moveTime(batchMs))
  const env = { ...withLimiter(memory()).bindings, DB }
  /** Sends a change, and returns its status and the database time that is left. */
  const put = async (ifMatch?: string) => {
    const headers = ifMatch === undefined ? {} : { 'if-match': ifMatch }
    const sent = request(token, 'PUT', '/clients/by-external-id/a', { company_name: 'A' }, headers)
    const response = await send(sent, { env })
    return [response.status, Number(/"database";r=(\d+)/.exec(response.headers.get('ratelimit') ?? '')?.[1])]
  }
  expect(await put()).toEqual([200, DATABASE_LIMIT_MS])
  for (let i = 0; i < 10; i++) expect(await put('"9"')).toEqual([412, DATABASE_LIMIT_MS])
  batchMs += 600
  expect(await put('"9"')).toEqual([412, DATABASE_LIMIT_MS - 600])
})
