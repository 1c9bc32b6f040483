import { env } from 'cloudflare:workers'
import { beforeEach, describe, expect, it } from 'vitest'
import type { Env } from '../../../../src/env.ts'
import { ApiError } from '../../../../src/kernel/http/errors.ts'
import { continueMove } from '../../../../src/operation/copies/move.ts'
import { FULL_TEXT } from '../../../../src/operation/copies/tables.ts'
import { addMember, adminCall, operatorOf } from '../../../support/admin.ts'
import { freshId, type Home, mintToken, request, send, sql, sqlIn } from '../../../support/app.ts'
import { logLines } from '../../../support/log.ts'
import {
  dump,
  type FilledCompany,
  fillCompany,
  giveIntegrations,
  makeIds,
  rowsOf,
} from '../../../support/two-companies.ts'
import { wrapBindings } from '../../../support/wrap-bindings.ts'
import { rowsOf as allRowsOf, OF_DIRECTORY, type Rows } from '../support.ts'
import { stepsOf } from './support.ts'

let company: FilledCompany
let neighbour: FilledCompany
let range = 0

beforeEach(async () => {
  range += 1000
  const idsOf = (name: string) => makeIds((n) => range + n, `${name}-${range}`)
  company = await fillCompany('MOVER', idsOf('mover'))
  neighbour = await fillCompany('STAYER', idsOf('stayer'), 'DB_TWO')
  await giveIntegrations(company)
  await sql(
    `INSERT INTO accounting_outbox (company_id, order_id, operation, state, next_attempt_at, created_at, updated_at)
     SELECT ?1, ?2, 'update', value, 9e15, 0, 0 FROM json_each('["pending", "dead", "done"]')`,
    ...[company.id, company.ids.order],
  )
  await addMember(company.id, 'a@x.example', 'owner')
})

/** Does one step of a move after the other. @param between is called after each of them */
async function move(
  to: Home,
  between: (step: string, count: number) => Promise<void> = async () => {},
  bindings: Env = env,
) {
  let count = 0
  for await (const { step, done } of stepsOf(company.id, to, bindings)) if (!done) await between(step, ++count)
}

/** Does one step of a move. */
const step = async (to: Home, bindings: Env = env) => (await continueMove(bindings, operatorOf(company.id), to, 0)).step

/** Bindings that end a move at one call of a database. @param isCarriedOut whether only its response is lost */
function dyingAt(failing: number, isCarriedOut: boolean): Env {
  let calls = 0
  return wrapBindings(env, async (name, work) => {
    if (!name.endsWith('.batch') || ++calls !== failing) return work()
    if (isCarriedOut) await work()
    throw new Error('D1_ERROR: killed')
  })
}

/** What a company's own database has of it, but for what a move leaves out or gives a new number. */
async function contents(home: Home) {
  const { companies = [], accounting_outbox: events = [], ...all } = await allRowsOf(company.id, home)
  for (const table of [...OF_DIRECTORY, 'company_guards']) delete all[table]
  return {
    ...all,
    companies: companies.map(({ slot, database, database_slot, ...row }) => row),
    accounting_outbox: events.filter(({ state }) => state !== 'done').map(({ id, source_id, ...row }) => row),
  } as Rows
}

async function answers() {
  const { ids } = company
  const paths = [
    ...['/clients', '/clients?q=mover', '/clients?q=mo', '/orders', '/orders?q=mover', `/orders/${ids.order}`],
    ...['/changes', '/products/search?q=mover&include=local,lines', '/me'],
    `/mail/email-threads/${ids.thread}?account_email=${ids.mailbox}`,
  ]
  const token = await mintToken(company.id)
  const bodies: unknown[] = []
  for (const path of paths) {
    const { status, body } = await send(request(token, 'GET', path))
    expect([path, status]).toEqual([path, 200])
    bodies.push(body)
  }
  return JSON.stringify(bodies).replaceAll(/"(id|name|next_cursor|cursor|latest|created_at)":"?[^,"}]*"?/g, '')
}

/** Calls of a database: at the beginning, in the copy, around the switch, in the removal. */
const POINTS = [2, 9, 60, 151, 200, 230, 245, 260, 290, 351]

const newClient = (text: string) => ({ company_name: text, external_id: text })

describe('a move', () => {
  it('takes every row to the other database, removes it from the old one, and gives its place back', async () => {
    const [before, shown] = [await contents('DB'), await answers()]
    const others = rowsOf(await dump([neighbour.id]), neighbour.id)
    await move('DB_TWO')
    expect(await contents('DB_TWO')).toEqual(before)
    expect(await answers()).toBe(shown)
    expect(rowsOf(await dump([neighbour.id]), neighbour.id)).toEqual(others)
    for (const [name, rows] of Object.entries(await contents('DB'))) {
      if (name !== 'companies') expect([name, rows]).toEqual([name, []])
    }
    const [row] = await sql<{ slot: number }>('SELECT slot FROM companies WHERE id = ?', company.id)
    for (const table of FULL_TEXT) {
      const left = await sql(`SELECT rowid FROM ${table} WHERE rowid >> 53 = ?`, row?.slot)
      expect([table, left]).toEqual([table, []])
    }
    const id = freshId()
    await adminCall('POST', '/companies', { id, database: 'DB' })
    expect(await sql('SELECT count(*) AS found FROM moves')).toEqual([{ found: 0 }])
    // And back again.
    await move('DB')
    expect(await contents('DB')).toEqual(before)
    expect(await answers()).toBe(shown)
    expect(await sql('SELECT database FROM companies WHERE id = ?', company.id)).toEqual([{ database: null }])
  })

  it('loses and doubles nothing of what is written between its steps', async () => {
    const acknowledged: string[] = []
    const refused: string[] = []
    const { ids } = company
    // Of several writes, so that it is also used when its placement is out of date.
    let token = ''
    let written = 0
    const write = async (step: string, count: number) => {
      const isLong = /^(clear|copy|compare|follow|remove)$/.test(step)
      if (isLong && count % 6 > 0) return
      if (count % 10 === 0 || token === '') token = await mintToken(company.id)
      const api = (method: string, path: string, body: unknown, headers = {}) =>
        send(request(token, method, path, body, headers))
      const name = `${step} ${count} ${++written}`
      const key = { 'idempotency-key': `key-${range}-${written}` }
      const made = await api('POST', '/clients', newClient(name), key)
      if (made.status !== 200) return void refused.push(`${step} ${made.status} ${made.body.error.message}`)
      // The answer shows what is stored now, wherever that is.
      const shown = await api('GET', '/clients?per_page=1', undefined)
      expect(shown.body.data[0]?.company_name).toBe(name)
      acknowledged.push(name)
      await api('PATCH', `/clients/${made.body.client.id}`, { first_name: name })
      // A value that changes hands, and a row that goes.
      await api('PATCH', `/clients/${ids.client}`, { external_id: null })
      const order = { title: name, client_id: made.body.client.id }
      expect((await api('POST', '/orders', order)).status).toBe(200)
      if (count % 3 === 0) await api('PATCH', `/orders/${ids.order}`, { title: name, client_id: made.body.client.id })
      await api('PUT', `/mail/email-threads/${ids.thread}`, {
        account_email: ids.mailbox,
        messages: [{ body_plain: name.repeat(500 * (count % 2)) }],
      })
    }
    for (const to of ['DB_TWO', 'DB'] as const) {
      await move(to, write)
      await write(`after ${to}`, to === 'DB' ? 901 : 900)
    }
    expect(refused).toEqual([])
    const clients = `SELECT company_name, first_name FROM clients
      WHERE company_id = ? AND external_id = company_name ORDER BY id`
    expect(await sql(clients, company.id)).toEqual(
      acknowledged.map((name) => ({ company_name: name, first_name: name })),
    )
    const created = 'SELECT title FROM orders WHERE company_id = ? AND version = 1'
    const orders = await sql<{ title: string }>(created, company.id)
    expect(orders.filter(({ title }) => acknowledged.includes(title))).toHaveLength(acknowledged.length)
    const [row] = await sql('SELECT client_count, last_change FROM companies WHERE id = ?', company.id)
    const [counted] = await sql('SELECT sum(1 - deleted) AS client_count FROM clients WHERE company_id = ?', company.id)
    expect(row).toMatchObject(counted ?? {})
    const feed = await sql('SELECT sequence FROM changes WHERE company_id = ? ORDER BY 1', company.id)
    expect(feed).toEqual(feed.map((_, index) => ({ sequence: index + 1 })))
    expect(feed.length).toBe(row?.last_change)
  })

  it('finds what differs, and copies the company again', async () => {
    const before = await contents('DB')
    const middle = 'length(content) / 2'
    const planted = {
      clients: "UPDATE clients SET company_name = 'x' WHERE company_id = ?",
      email_threads: `UPDATE email_threads SET content = substr(content, 1, ${middle} - 1) || '#' || substr(content, ${middle} + 1) WHERE company_id = ?`,
      payments: 'DELETE FROM payments WHERE company_id = ?',
      thread_context_links: 'UPDATE thread_context_links SET entity_id = entity_id + 1 WHERE company_id = ?',
    }
    const waiting = Object.values(planted)
    logLines.length = 0
    let step = ''
    await move('DB_TWO', async (now) => {
      const text = now === 'compare' && step !== now ? waiting.shift() : undefined
      step = now
      if (text) await sqlIn('DB_TWO', text, company.id)
    })
    const found = logLines.filter(({ event }) => event === 'move_differs')
    const reasons = Object.keys(planted).map((table) => expect.stringContaining(table))
    expect(found).toMatchObject(reasons.map((reason) => ({ company_id: company.id, reason })))
    expect(await contents('DB_TWO')).toEqual(before)
  })

  it('follows changes that the feed does not name, of each kind', async () => {
    const { id, ids } = company
    const changes = [
      "UPDATE accounting_outbox SET state = 'done' WHERE company_id = ? AND state = 'pending'",
      "UPDATE accounting_outbox SET attempts = attempts + 1 WHERE company_id = ? AND state = 'dead'",
      `INSERT INTO accounting_outbox (company_id, order_id, operation, next_attempt_at, created_at, updated_at)
        SELECT company_id, id, 'update', 9e15, 1, 1 FROM orders WHERE company_id = ? LIMIT 1`,
      "UPDATE clients SET accounting_customer_id = '77' WHERE company_id = ?",
      "UPDATE thread_contexts SET sender_email = 'b@x.example', version = version + 1 WHERE company_id = ?",
      "UPDATE catalog_items SET title = 'Other', version = version + 1 WHERE company_id = ?",
      'UPDATE integrations SET settings = \'{"a":1}\' WHERE company_id = ?',
      "INSERT INTO taxes (company_id, id, name, rate) VALUES (?, 900, 'New', 5)",
      'DELETE FROM webhook_deliveries WHERE company_id = ?',
      'DELETE FROM webhook_endpoints WHERE company_id = ?',
    ]
    for (const [to, now] of [
      ['DB_TWO', 'switch'],
      ['DB', 'compare'],
    ] as const) {
      const from = to === 'DB' ? 'DB_TWO' : 'DB'
      let wanted: Awaited<ReturnType<typeof contents>> = {}
      await move(to, async (step) => {
        if (step !== now || wanted.clients) return
        for (const text of changes.filter((each) => now === 'switch' || !each.startsWith('INSERT INTO taxes'))) {
          await sqlIn(from, text, id)
        }
        const token = await mintToken(id)
        await send(request(token, 'PATCH', `/orders/${ids.order}`, { title: `Renamed ${to}` }))
        wanted = await contents(from)
      })
      expect(await contents(to)).toEqual(wanted)
      expect(wanted.accounting_outbox).toContainEqual(
        expect.objectContaining({ state: 'dead', attempts: expect.any(Number) }),
      )
    }
  })

  it('can be interrupted at any call of a database, and continued', async () => {
    const before = await contents('DB')
    let home: Home = 'DB'
    for (const failing of POINTS) {
      const to: Home = home === 'DB' ? 'DB_TWO' : 'DB'
      await expect(move(to, async () => {}, dyingAt(failing, failing % 2 === 0))).rejects.toThrow()
      await move(to)
      home = to
      expect([failing, await contents(home)]).toEqual([failing, before])
    }
  })

  it('is in the log of administrators once, wherever its last part is interrupted', async () => {
    for (const [to, parity] of [
      ['DB_TWO', 0],
      ['DB', 1],
    ] as const) {
      while ((await step(to)) !== 'switch');
      const interrupted = (failing: number) =>
        step(to, dyingAt(failing, failing % 2 === parity)).catch(() => 'interrupted')
      for (let failing = 1; (await interrupted(failing)) !== 'remove'; ) failing++
      await move(to)
    }
    const moves =
      "SELECT actor, entity_id FROM admin_log WHERE company_id = ? AND action = 'companies.move' ORDER BY id"
    expect(await sql(moves, company.id)).toEqual(['DB_TWO', 'DB'].map((to) => ({ actor: 'operator', entity_id: to })))
  })

  it('finds no difference where rows were removed since they were copied, or thousands were written', async () => {
    await sql(
      `WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
       INSERT INTO idempotency_keys (company_id, token_id, key, fingerprint, created_at)
       SELECT ?, 1, printf('old %06d', i), 'f', 0 FROM n`,
      company.id,
    )
    const steps: string[] = []
    const before = logLines.length
    await move('DB_TWO', async (step) => {
      if (step === 'compare' && steps.at(-1) !== step) {
        const isOld = "company_id = ? AND key LIKE 'old %'"
        await sql(`DELETE FROM idempotency_keys WHERE ${isOld} AND key < 'old 000100'`, company.id)
        await sql(`UPDATE idempotency_keys SET fingerprint = 'g' WHERE ${isOld} AND key > 'old 002800'`, company.id)
      }
      steps.push(step)
    })
    expect(logLines.slice(before).filter(({ event }) => event === 'move_differs')).toEqual([])
    expect(steps.filter((step) => step === 'follow').length).toBeGreaterThan(1)
    const found = `SELECT fingerprint, count(*) AS count FROM idempotency_keys WHERE company_id = ? AND key LIKE 'old %' GROUP BY 1`
    expect(await sqlIn('DB_TWO', found, company.id)).toEqual([
      { fingerprint: 'f', count: 2_701 },
      { fingerprint: 'g', count: 2_200 },
    ])
  })

  it('keeps the feed of changes when it is interrupted at its end, and continued after other writes', async () => {
    while ((await step('DB_TWO')) !== 'switch');
    const { ids } = company
    for (let failing = 1; ; failing++) {
      const reached = await step('DB_TWO', dyingAt(failing, false)).catch(() => 'interrupted')
      const [guard] = await sql<{ state: string }>('SELECT state FROM company_guards WHERE company_id = ?', company.id)
      if (reached === 'remove' || guard?.state === 'moved') break
      // What the call that was killed could not undo.
      await sql("UPDATE company_guards SET state = 'copying' WHERE company_id = ? AND state = 'read_only'", company.id)
      const token = await mintToken(company.id)
      const changed = request(token, 'PATCH', `/orders/${ids.order}`, { title: `Order ${failing}` })
      expect((await send(changed)).status).toBe(200)
      expect((await send(request(token, 'POST', '/clients', newClient(`end ${failing}`)))).status).toBe(200)
    }
    const feed = 'SELECT sequence, type, entity_id FROM changes WHERE company_id = ? ORDER BY sequence'
    expect(await sqlIn('DB_TWO', feed, company.id)).toEqual(await sqlIn('DB', feed, company.id))
    await move('DB_TWO')
  })

  it('can be taken back until the old database is closed', async () => {
    const before = await contents('DB')
    for (const steps of [1, 30, 45, 60, 500]) {
      let count = 0
      while (count++ < steps) {
        const result = await continueMove(env, operatorOf(company.id), 'DB_TWO', 0)
        if (result.step === 'remove') break
      }
      const moved = continueMove(env, operatorOf(company.id), 'DB', 10_000)
      const back = await moved.catch((error: unknown) => error)
      if (back instanceof ApiError) {
        expect(back.message).toContain('The company has moved')
        await move('DB_TWO')
        return
      }
      expect(back).toMatchObject({ done: true })
      expect(await contents('DB')).toEqual(before)
      expect(await sqlIn('DB_TWO', 'SELECT id FROM companies WHERE id = ?', company.id)).toEqual([])
      expect((await company.call('POST', '/clients', newClient(`back ${steps}`))).status).toBe(200)
      await sql('DELETE FROM audit_log WHERE company_id = ?', company.id)
      Object.assign(before, await contents('DB'))
    }
    throw new Error('The move never came to its end.')
  })
})
