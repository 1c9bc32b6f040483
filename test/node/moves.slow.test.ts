import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { killMoves, type Survivor } from '../tools/moves/kill.ts'
import { measureMove } from '../tools/moves/measure.ts'

describe('moves of a company that are killed at ten points while it is written', () => {
  let survivor: Survivor

  beforeAll(async () => {
    survivor = await killMoves()
    const { kills, writes, refused, lost } = survivor.figures
    console.log(`${kills.length} kills: ${writes} writes acknowledged, ${refused} refused, ${lost} without a response`)
  }, 900_000)

  afterAll(() => survivor?.close())

  it('lose and double nothing, and leave the other company as it was', () => {
    expect(survivor.figures.findings.join('\n')).toBe('')
    expect(survivor.figures.missed).toEqual([])
    expect(survivor.figures.kills).toHaveLength(10)
    expect(survivor.figures.writes).toBeGreaterThan(50)
  })

  const TWIN = 900_000
  const written = "company_id = 1 AND company_name LIKE 'Writer %'"

  // Each in the database that those before it, in any order, have spoiled.
  it.each([
    [
      'a client that is lost',
      `DELETE FROM clients WHERE id = (SELECT max(id) FROM clients WHERE ${written} AND id < ${TWIN})`,
      /^client \d+: undefined,/,
    ],
    [
      'a client that is there twice',
      `INSERT INTO clients (company_id, id, company_name, company_name_key, created_at, updated_at)
        SELECT 1, ${TWIN}, company_name, company_name_key, 0, 0 FROM clients WHERE ${written} LIMIT 1`,
      new RegExp(`^client Writer .*${TWIN}`),
    ],
    [
      'a change that is undone',
      `UPDATE clients SET first_name = 'x' WHERE ${written}`,
      /^client \d+: .*"first_name":"x"/,
    ],
    [
      'an event that is there twice',
      `INSERT INTO accounting_outbox (company_id, order_id, operation, state, next_attempt_at, created_at, updated_at)
        SELECT company_id, order_id, operation, state, 9e15, 0, 0 FROM accounting_outbox WHERE operation = 'create' AND company_id = 1`,
      /^events of order/,
    ],
    [
      'a thread with the text of another time',
      `UPDATE email_threads SET content_hash = 'x', content = NULL WHERE company_id = 1 AND legacy_thread_id LIKE 'writer-%'`,
      /^thread writer/,
    ],
    ['a key of a repeated request that is lost', 'DELETE FROM idempotency_keys WHERE company_id = 1', /^key of w/],
    ['a wrong counter', 'UPDATE companies SET client_count = client_count + 1 WHERE id = 1', /^counters/],
    ['a gap in the feed', 'DELETE FROM changes WHERE company_id = 1 AND sequence = 5', /^feed/],
  ])('would have found %s', async (_, spoil, finding) => {
    const findings = await survivor.recheck(spoil)
    expect(findings.some((each) => finding.test(each))).toBe(true)
  })
})

it('a company is read while it moves, and refused writes say when to retry', async () => {
  const { rows, frozenMs, failedReads, withoutRetryAfter } = await measureMove(2_000)
  expect(rows).toBeGreaterThan(20_000)
  expect(frozenMs).toBeGreaterThan(0)
  expect({ failedReads, withoutRetryAfter }).toEqual({ failedReads: 0, withoutRetryAfter: 0 })
})
