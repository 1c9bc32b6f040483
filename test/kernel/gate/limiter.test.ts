import { evictDurableObject, runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Admitted } from '../../../src/kernel/gate/limiter.ts'
import {
  DATABASE_LIMIT_MS,
  databaseResetAt,
  LIMIT,
  resetAt,
  WINDOW_MS,
  type Window,
} from '../../../src/kernel/gate/limits.ts'
import { mintCompany, randomToken, sql } from '../../support/app.ts'
import { type Call, recordSql } from '../../support/record-sql.ts'
import { moveTime, stopTime } from '../../support/time.ts'
import { breakCalls, wrapBindings } from '../../support/wrap-bindings.ts'
import { markUsed } from './support.ts'
import { Gate } from './token-object.ts'

/** One row counts so many requests ahead. */
const BLOCK = 20
const BOOKMARK = '00000085-0000024c-00004c6d-8e61117bf38d7adb71b934ebbf891683'
const NEWER = `00000086${BOOKMARK.slice(8)}`

const restrict = (gate: Gate, permissions: string) =>
  sql('UPDATE api_tokens SET permissions = ? WHERE token_hash = ?', permissions, gate.hash)

describe('counting', () => {
  it.each([1, 2, 7, 21, 50, 150])('gives no second allowance after a crash behind %i requests', async (requests) => {
    const gate = await Gate.open()
    expect(await gate.allow(requests)).toBe(requests)
    await gate.crash()
    const rest = await gate.allow(LIMIT)
    expect(rest).toBeLessThanOrEqual(LIMIT - requests)
    expect(rest).toBeGreaterThan(LIMIT - requests - BLOCK)
  })

  it('gives no second allowance after any number of crashes', async () => {
    const gate = await Gate.open()
    let given = 0
    for (let i = 0; i < 15; i++) {
      given += await gate.allow(30)
      await gate.crash()
    }
    expect(given).toBeLessThanOrEqual(LIMIT)
  })

  it('stores one row for ten requests at most, and none for a refusal', async () => {
    const gate = await Gate.open()
    await runInDurableObject(gate.stub, async (object, state) => {
      const put = vi.spyOn(state.storage.kv, 'put')
      const admit = () => object.admit(gate.hash, { databaseMs: 2, isWrite: false })
      for (let i = 1; i <= LIMIT; i++) {
        await admit()
        expect(state.storage.kv.get<Window>('window')?.count).toBeGreaterThanOrEqual(i)
      }
      expect(put.mock.calls.length).toBeLessThanOrEqual(LIMIT / 10)
      put.mockClear()
      expect(await admit()).toMatchObject({ decision: { allowed: false } })
      expect(put).not.toHaveBeenCalled()
    })
  })

  it('stores one row for ten requests at most of a token that writes', async () => {
    const gate = await Gate.open()
    await runInDurableObject(gate.stub, async (object, state) => {
      const put = vi.spyOn(state.storage.kv, 'put')
      for (let i = 1; i <= 100; i++) {
        const { receipt } = (await object.admit(gate.hash, { databaseMs: 0, isWrite: true })) as Admitted
        object.report({ databaseMs: 1, seen: { database: 'DB', bookmark: BOOKMARK, ...receipt } })
      }
      expect(put.mock.calls.length).toBeLessThanOrEqual(10)
    })
  })

  it('opens a new window after the old one, and keeps its end through a crash', async () => {
    const gate = await Gate.open()
    await markUsed(gate.token)
    await gate.allow(LIMIT)
    // The company's share is learnt behind the requests, so that a new object does not know it yet.
    const { company: _, ...old } = (await gate.admit()).decision
    await gate.crash()
    expect((await gate.admit()).decision).toEqual(old)
    moveTime(WINDOW_MS)
    expect((await gate.admit()).decision).toMatchObject({ allowed: true, window: { count: 1 } })
    await gate.crash()
    expect(await gate.allow(LIMIT)).toBeLessThanOrEqual(LIMIT - 1)
  })

  it('counts database time for all isolates together, and through crashes', async () => {
    const gate = await Gate.open()
    for (const databaseMs of [5_000, 10_000]) {
      const { decision } = await gate.admit({ databaseMs: 5_000 })
      expect(decision).toMatchObject({ allowed: true, window: { databaseMs } })
      await gate.crash()
    }
    const { decision: refused } = await gate.admit({ databaseMs: 20_000 })
    expect(refused).toMatchObject({ allowed: false, window: { databaseMs: 2 * DATABASE_LIMIT_MS } })
    await gate.crash()
    expect((await gate.admit()).decision).toEqual(refused)

    // The debt takes another window.
    vi.useFakeTimers({ toFake: ['Date'], now: resetAt(refused.window) })
    expect((await gate.admit()).decision.allowed).toBe(false)
    vi.setSystemTime(databaseResetAt(refused.window))
    expect((await gate.admit()).decision).toMatchObject({ allowed: true, window: { databaseMs: 0 } })
  })

  it('sums the usage by hour: requests, those allowed without it, refusals and database time', async () => {
    const gate = await Gate.open()
    await markUsed(gate.token)
    await gate.allow(LIMIT)
    await gate.admit({ databaseMs: 5, refused: 3 })
    expect(await gate.stub.usage()).toMatchObject([{ requests: LIMIT, refused: 4, databaseMs: 5 }])
  })
})

describe('the identity', () => {
  beforeEach(stopTime)

  const permissionsOf = async (gate: Gate) => (await gate.admit()).token.permissions.size

  it('has the company, its database and what the token may do', async () => {
    const { id, token } = await mintCompany({ permissions: ['clients:read'] })
    const { token: found } = await new Gate(token).admit()
    expect(found).toMatchObject({ companyId: id, database: 'DB', suspended: false, expiresAt: null })
    expect([...found.permissions]).toEqual(['clients:read'])
  })

  it('is refreshed in the background from 15 s on, and never used beyond 30 s', async () => {
    const gate = await Gate.open()
    expect(await permissionsOf(gate)).toBe(9)
    await restrict(gate, '["clients:read"]')
    moveTime(14_900)
    expect(await permissionsOf(gate)).toBe(9)
    moveTime(200)
    // This request begins the look-up, and does not wait for it.
    expect(await permissionsOf(gate)).toBe(9)
    await vi.waitUntil(async () => (await permissionsOf(gate)) === 1, 10_000)
    await restrict(gate, '[]')
    moveTime(30_000)
    expect(await permissionsOf(gate)).toBe(0)
  })

  it('is kept with the stored row: an evicted object looks the token up in the background, too', async () => {
    const gate = await Gate.open()
    await gate.admit()
    await restrict(gate, '["clients:read"]')
    await gate.crash()
    expect(await permissionsOf(gate)).toBe(9)
    moveTime(30_000)
    expect(await permissionsOf(gate)).toBe(1)
  })

  it('is looked up again at once when it is forgotten, also after a crash', async () => {
    const gate = await Gate.open()
    expect(await permissionsOf(gate)).toBe(9)
    await restrict(gate, '["clients:read"]')
    await gate.stub.forget()
    await gate.crash()
    expect(await permissionsOf(gate)).toBe(1)
  })

  it('of a look-up that began before the token changed is not kept', async () => {
    const gate = await Gate.open()
    const seen = { reads: 0, isChanged: false }
    await gate.bind(
      wrapBindings(env, async (_, work) => {
        const found = await work()
        if (seen.reads++ === 0) while (!seen.isChanged) await scheduler.wait(5)
        return found
      }),
    )
    const before = permissionsOf(gate)
    await vi.waitUntil(() => seen.reads === 1)
    await restrict(gate, '["clients:read"]')
    await gate.stub.forget()
    expect(await permissionsOf(gate)).toBe(1)
    seen.isChanged = true
    expect(await before).toBe(9)
    expect(await permissionsOf(gate)).toBe(1)
  })

  it('of an unknown token stores nothing', async () => {
    const gate = new Gate(randomToken())
    const request = { databaseMs: 0, isWrite: true }
    for (let i = 0; i < 3; i++) expect(await gate.stub.admit(gate.hash, request)).toEqual({ kind: 'unknown' })
    await runInDurableObject(gate.stub, async (_, state) => {
      expect([...state.storage.kv.list()]).toEqual([])
      expect(await state.storage.getAlarm()).toBeNull()
    })
  })

  it('of a revoked or expired token ends the request, which is not counted', async () => {
    for (const [change, used] of [
      ['revoked_at = 1', 0],
      ['expires_at = 1', 0],
      ['revoked_at = 1', 1],
    ] as const) {
      const gate = await Gate.open()
      await gate.allow(used)
      await sql(`UPDATE api_tokens SET ${change} WHERE token_hash = ?`, gate.hash)
      moveTime(30_000)
      const request = { databaseMs: 0, isWrite: false }
      expect(await gate.stub.admit(gate.hash, request)).toMatchObject({ kind: 'ended' })
      expect(await gate.stub.usage()).toMatchObject(Array(used).fill({ requests: 1, refused: 0 }))
    }
  })

  it('goes on for up to 30 s while the directory fails, and then rejects the request', async () => {
    const gate = await Gate.open()
    await gate.admit()
    await gate.bind(breakCalls(env, /^DB\.batch$/, new Error('down')))
    moveTime(29_900)
    expect(await permissionsOf(gate)).toBe(9)
    moveTime(200)
    await expect(gate.admit()).rejects.toThrow()
  })

  it('has its last use written once, however many requests come', async () => {
    const gate = await Gate.open()
    const calls: Call[] = []
    await gate.bind({ ...env, DB: recordSql(env.DB, calls) })
    await Promise.all(Array.from({ length: 20 }, () => gate.admit()))
    expect(calls.flat().filter(([text]) => /update.*api_tokens/is.test(text))).toHaveLength(1)
  })

  it('is found although its last use cannot be written', async () => {
    const gate = await Gate.open()
    let batches = 0
    await gate.bind(wrapBindings(env, (_, work) => (batches++ === 0 ? work() : Promise.reject(new Error('no')))))
    expect((await gate.admit()).decision.allowed).toBe(true)
    expect(batches).toBe(2)
  })
})

describe('where reads may run', () => {
  it('is the primary in the first minute of a token, whose row no replica may have yet', async () => {
    const gate = await Gate.open()
    await sql('UPDATE api_tokens SET created_at = ? WHERE token_hash = ?', Date.now(), gate.hash)
    expect(await gate.constraint()).toBe('primary')
    moveTime(60_100)
    expect(await gate.constraint()).toBeNull()
  })

  it('survives a crash: the primary while a write may be unreported, the bookmark of what was stored', async () => {
    const gate = await Gate.open()
    const written = await gate.write()
    await gate.crash()
    expect(await gate.constraint()).toBe('primary')
    await gate.report(BOOKMARK, written)
    // Another write may have begun before the crash.
    expect(await gate.constraint()).toBe('primary')
    moveTime(60_100)
    const read = await gate.admit()
    expect(read.constraint).toBe('primary')
    await gate.report(NEWER, read)
    expect(await gate.constraint()).toBe(NEWER)
  })
})

describe('an idle object that was evicted', () => {
  let counted: [Gate, Gate]
  let read: Gate
  let changed: Gate

  // All at once: an object is idle only after some seconds.
  beforeAll(async () => {
    counted = [await Gate.open(), await Gate.open()]
    expect(await Promise.all(counted.map((gate, index) => gate.allow(index === 0 ? 1 : 33)))).toEqual([1, 33])
    ;[read, changed] = [await Gate.open(), await Gate.open()]
    for (const gate of [read, changed]) await gate.report(BOOKMARK, await gate.write())
    await Promise.all([...counted, read, changed].map((gate) => gate.evictIdle()))
  })

  it('allows exactly the rest', async () => {
    expect(await Promise.all(counted.map((gate) => gate.allow(LIMIT)))).toEqual([LIMIT - 1, LIMIT - 33])
  })

  it('has the bookmark', async () => {
    expect(await read.constraint()).toBe(BOOKMARK)
  })

  it('has the bookmark, too, where it is told first that its token was changed', async () => {
    await restrict(changed, '[]')
    await changed.stub.forget()
    await evictDurableObject(changed.stub)
    const { constraint, token } = await changed.admit()
    expect([constraint, token.permissions.size]).toEqual([BOOKMARK, 0])
  })
})
