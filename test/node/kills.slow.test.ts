import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { crashCreates, crashImport } from '../tools/crash/resumed.ts'
import { crash, describe as describeFigures } from '../tools/crash/run.ts'
import { killMoves } from '../tools/moves/kill.ts'
import { measureMove } from '../tools/moves/measure.ts'

/** Fixed: the kills come at the same moments each time; `npm run crash` takes another one each time. */
const SEED = 20_261
const TIMES = 10

/** Whose process holds the database, and who belongs to a group, is read from /proc. */
const IS_LINUX = process.platform === 'linux'

describe.runIf(IS_LINUX)('a service that is killed ten times while it writes', () => {
  let survivor: Awaited<ReturnType<typeof crash>>

  beforeAll(async () => {
    survivor = await crash({ seed: SEED, times: TIMES })
    console.log(`seed ${SEED}: ${describeFigures(survivor.figures)}`)
  }, 600_000)

  afterAll(() => survivor?.close())

  it('loses nothing that it acknowledged and leaves nothing in part', () => {
    expect(survivor.findings.join('\n')).toBe('')
    expect(survivor.figures.crashes).toEqual({ workerd: 5, group: 5 })
    expect(survivor.figures.acknowledged).toBeGreaterThan(50)
    expect(survivor.figures.inFlight).toBeGreaterThan(10)
    // Killed between the announcement of an object and the batch that names it.
    expect(survivor.figures.unnamedObjects).toBeGreaterThan(0)
  })

  const newest = (table: string, condition = '1') =>
    `${table} WHERE rowid = (SELECT max(rowid) FROM ${table} WHERE ${condition})`
  const LAST_CHANGE = '(SELECT last_change FROM companies WHERE id = 1)'
  const lastOf = (table: string) => `(SELECT max(id) FROM ${table} WHERE company_id = 1)`

  it.each([
    ['nothing', 'SELECT 1', []],
    ['a lost client', `DELETE FROM clients WHERE id = ${lastOf('clients')}`, [/^client \d+ is absent/, /clients_fts/]],
    ['lost writes', "DELETE FROM audit_log WHERE request_id LIKE 'crash-%'", [/acknowledged, and is not in the/]],
    ['a change undone', "UPDATE orders SET title = 'Before' WHERE id = 1", [/^order 1 is/]],
    ['an order without its invoice', `DELETE FROM invoices WHERE project_id = ${lastOf('orders')}`, [/^invoice of/]],
    ['a gap in the numbers', `UPDATE companies SET last_invoice_number = last_invoice_number + 1`, [/ids and number/]],
    [
      'half a delete',
      'UPDATE orders SET deleted = 1 WHERE id = (SELECT max(id) FROM orders WHERE company_id = 1 AND deleted = 0)',
      [/^order \d+ is/],
    ],
    ['a lost event', `DELETE FROM ${newest('accounting_outbox')}`, [/^event \d+/]],
    ['an event for another order', `UPDATE accounting_outbox SET order_id = 2 WHERE id = 1`, [/^event 1 /]],
    [
      'a version raised twice',
      'UPDATE clients SET version = version + 1 WHERE id = 1',
      [/^client 1 is/, /^change \d+ of/],
    ],
    ['a wrong version of a thread', `UPDATE email_threads SET revision = revision + 1`, [/^thread .* is/]],
    ['a change missing in the feed', `DELETE FROM changes WHERE sequence = ${LAST_CHANGE} - 5`, [/^change \d+ of/]],
    [
      'the newest change missing',
      `DELETE FROM changes WHERE sequence = ${LAST_CHANGE}`,
      [/^change \d+ of .* is absent/],
    ],
    [
      'a change in the feed of a write that is absent',
      `INSERT INTO changes (company_id, sequence, type, entity_id, operation, version, at)
       SELECT company_id, sequence + 1, type, entity_id, operation, version + 1, at
       FROM changes WHERE company_id = 1 AND sequence = ${LAST_CHANGE}`,
      [/^change \d+ of .* instead of absent/],
    ],
    [
      'a delete in the feed as an update',
      "UPDATE changes SET operation = 'update' WHERE operation = 'delete'",
      [/^change/],
    ],
    ['a gap in the sequence of the feed', 'UPDATE companies SET last_change = last_change + 1', [/ids and number/]],
    ['a wrong count', 'UPDATE companies SET client_count = client_count - 1', [/^the counts/]],
    ['lost content', 'UPDATE email_threads SET content = NULL', [/^the content of thread/]],
    [
      'an object of mail that no row names',
      `DELETE FROM ${newest('email_thread_objects', "state = 'stored'")}`,
      [/^the content of thread/, /^the object .* is in no row/],
    ],
    [
      'a lost object of mail',
      `UPDATE email_thread_objects SET id = id || 'x' WHERE state = 'stored'`,
      [/^the content of thread/, /^the object .* is stored, and missing/],
    ],
    [
      'a mixture of two bodies',
      `UPDATE email_threads SET content = (SELECT content FROM email_threads WHERE content IS NOT NULL LIMIT 1)`,
      [/^the content of thread/],
    ],
    [
      'a thread that was never written',
      'UPDATE email_threads SET legacy_thread_id = legacy_thread_id || 9',
      [/never written/],
    ],
    [
      'words that are not found',
      `DELETE FROM clients_fts WHERE rowid = (SELECT max(rowid) FROM clients_fts)`,
      [/^clients_fts is wrong: 1 rows lack/],
    ],
    ['a row that refers to nothing', 'UPDATE orders SET client_id = 999999 WHERE id = 1', [/^a row of orders refers/]],
  ])('and %s would have been noticed', (_, spoil, findings) => {
    const found = survivor.recheck(spoil)
    if (findings.length === 0) expect(found).toEqual([])
    for (const finding of findings) expect(found).toEqual(expect.arrayContaining([expect.stringMatching(finding)]))
  })
})

it.runIf(IS_LINUX)('creations that are sent with a key until they are answered make exactly one row each', async () => {
  const creates = 100
  const figures = await crashCreates({ seed: SEED, creates })
  console.log(`${creates} creations: ${JSON.stringify(figures)}`)
  expect([figures.rows, figures.ids]).toEqual([creates, creates])
  expect(figures.kills).toBeGreaterThan(0)
})

it.runIf(IS_LINUX)('an import that is resumed after each kill loads whole parts, in the end the file', async () => {
  const { findings, ...figures } = await crashImport({ seed: SEED, orders: 2000 })
  console.log(`an import: ${JSON.stringify(figures)}`)
  expect(findings).toEqual([])
  expect(figures.kills).toBeGreaterThan(0)
})

describe('moves of a company that are killed at ten points while it is written', () => {
  let survivor: Awaited<ReturnType<typeof killMoves>>

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
