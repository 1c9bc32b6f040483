import { env } from 'cloudflare:workers'
import { beforeAll, describe, expect, it } from 'vitest'
import { sweep } from '../../../src/delivery/accounting/delivery.ts'
import type { Env } from '../../../src/env.ts'
import { removeExpiredRows } from '../../../src/kernel/db/sweep.ts'
import { migrate, mintCompany, sql } from '../../support/app.ts'

beforeAll(migrate)

const DAY_MS = 86_400_000
const NOW = Date.UTC(2026, 10, 22, 12)

/** A database that always has more to remove, and counts the statements. */
function endlessDatabase() {
  const statements: string[] = []
  const binding = {
    prepare: (text: string) => {
      const run = () => {
        statements.push(text)
        return { results: [], meta: { changes: 3_000 } }
      }
      const statement = { bind: () => statement, run: async () => run(), now: run }
      return statement
    },
    batch: async (batch: { now: () => object }[]) => batch.map((each) => each.now()),
    withSession: () => binding,
    getBookmark: () => null,
  }
  return { binding: binding as unknown as D1Database, statements }
}

describe('the removal of old rows', () => {
  it('removes more than the limits admit between two sweeps, and leaves newer rows', async () => {
    const { id } = await mintCompany()
    // What 10 tokens write in 5 minutes with 300 requests a minute each.
    const written = 10 * 5 * 300
    await sql(
      `WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
       INSERT INTO audit_log (company_id, token_id, request_id, action, entity_id, at)
       SELECT ?2, 1, 'r', 'x', i, ?3 + (i > ?1 - 10) FROM n`,
      written + 10,
      id,
      NOW - 90 * DAY_MS - 1,
    )
    await removeExpiredRows(env.DB, NOW)
    expect(await sql('SELECT count(*) AS n FROM audit_log')).toEqual([{ n: 10 }])
  })

  it('is bounded in statements, and removes in one sweep what 200 tokens may write until the next', async () => {
    const { binding, statements } = endlessDatabase()
    await removeExpiredRows(binding, NOW)
    const ofAudit = statements.filter((text) => text.includes('delete from "audit_log"'))
    expect(ofAudit.length * 3_000).toBeGreaterThanOrEqual(200 * 5 * 300)
    // D1 accepts at most 1,000 statements from one invocation.
    expect(statements.length).toBeLessThan(1_000)
    for (const table of ['accounting_outbox', 'changes', 'email_thread_uploads', 'idempotency_keys']) {
      expect(statements.filter((text) => text.includes(`delete from "${table}"`))).toHaveLength(ofAudit.length)
    }
  })
})

describe('the statistics', () => {
  async function optimizedAt(time: string): Promise<number> {
    const texts: string[] = []
    const DB = new Proxy(env.DB, {
      get: (target, name) => {
        const member: unknown = Reflect.get(target, name)
        if (typeof member !== 'function') return member
        return (...input: unknown[]) => {
          if (name === 'prepare') texts.push(String(input[0]))
          return Reflect.apply(member, target, input)
        }
      },
    })
    await sweep({ ...env, DB } as Env, Date.parse(time))
    return texts.filter((text) => text === 'PRAGMA optimize').length
  }

  it.each([
    ['2026-11-22T03:00:00.000Z', 1],
    ['2026-11-22T03:04:59.999Z', 1],
    ['2026-11-22T03:05:00.000Z', 0],
    ['2026-11-22T02:55:00.000Z', 0],
    ['2026-11-22T15:00:00.000Z', 0],
  ])('are renewed by the first sweep after three in the morning: %s', async (time, times) => {
    expect(await optimizedAt(time)).toBe(times)
  })

  it('are requested by the last step of the migrations', () => {
    expect(env.TEST_MIGRATIONS.at(-1)?.queries.at(-1)).toMatch(/^PRAGMA optimize;?$/m)
  })
})
