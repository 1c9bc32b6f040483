import { env } from 'cloudflare:workers'
import { expect } from 'vitest'
import { rowsOf } from '../operation/copies/support.ts'
import { adminCall } from '../support/admin.ts'
import {
  type ApiResponse,
  type Home,
  migrate,
  mintCompany,
  removeEverything,
  sql,
  sqlIn,
  type TestCompany,
} from '../support/app.ts'
import { insertion } from '../support/rows.ts'
import { dump, rowsOf as rowsOfDump } from '../support/two-companies.ts'
import { FEED, type Kind, LONG_AGO, MAILBOX, NEVER, type Row, rowsFor } from './twin-rows.ts'

/*
 * A scenario runs twice: for a company that has the database to itself, and for one between two others whose rows have
 * the same ids, emails, addresses and keys. Both companies must see and store the same. No expected value is written
 * down, so a scenario only lists requests.
 */

/** The company that a scenario acts for. What it notes must be the same in both runs. */
export interface Actor extends TestCompany {
  word: string
  tokenId: number
  note: (name: string, value: unknown) => void
  /** Sends a request and notes its response. */
  send: (method: string, path: string, body?: unknown, headers?: Record<string, string>) => Promise<ApiResponse>
  /** The same to the administration API, with a path behind that of the company. */
  administer: (method: string, path: string, body?: unknown) => Promise<ApiResponse>
}

export type Scenario = (actor: Actor) => Promise<unknown>

const THREAD_ID = '12345678-1234-4234-8234-123456789012'
const WORDS = { first: 'ALPHA', middle: 'BRAVO', last: 'CHARL' }

async function mintTwin(kind: Kind, home: Home) {
  const word = WORDS[kind]
  const company = await mintCompany({ home })
  for (const table of ['order_statuses', 'taxes'])
    await sqlIn(home, `DELETE FROM ${table} WHERE company_id = ?`, company.id)
  await sqlIn(
    home,
    `UPDATE companies SET last_client_id = 0, last_order_id = 0, last_invoice_id = 0, accounting_sync_enabled = 1, deliveries_paused = 1, backed_up_at = ?2,
       mail_quota_bytes = ?3 WHERE id = ?1`,
    ...[company.id, LONG_AGO, kind === 'middle' ? 2 ** 31 : 2 ** 30],
  )
  for (const isDirectory of [false, true]) {
    const database = isDirectory ? 'DB' : home
    const rows = rowsFor(word, kind).filter(([table]) => DIRECTORY.includes(table) === isDirectory)
    await env[database].batch(
      rows.map(([table, row]) => insertion(table, { company_id: company.id, ...row }, database)),
    )
  }
  const [token] = await sql<{ id: number }>('SELECT id FROM api_tokens WHERE company_id = ?', company.id)
  const mailThread = { account_email: MAILBOX, subject: word, messages: [{ id: word }], labels: [word] }
  const more = kind === 'last' ? ['mail-1', 'mail-2', 'mail-3', 'mail-11'] : ['mail-1', 'mail-2', 'mail-3']
  for (const id of more) expect((await company.call('PUT', `/mail/email-threads/${id}`, mailThread)).status).toBe(200)
  if (kind !== 'middle') await company.call('DELETE', `/mail/email-threads/mail-1?account_email=${MAILBOX}`)
  for (const id of [1, 2, 3]) await env.FILES.put(`orders/${company.id}/${id}/${word}.txt`, word)

  if (kind === 'first') {
    const content = { message_count: 0, last_synced_at: 0, content_hash: 'x', revision: 1, content_revision: 1 }
    const thread = { id: THREAD_ID, account_email: 'other@x.example', legacy_thread_id: 'mail-2', ...content }
    await insertion('email_threads', { company_id: company.id, ...thread, created_at: 0, updated_at: 0 }, home).run()
  } else {
    await sqlIn(home, 'UPDATE changes SET sequence = sequence + ?2 WHERE company_id = ?1', company.id, FEED)
    await sqlIn(home, 'UPDATE companies SET last_change = last_change + ?2 WHERE id = ?1', company.id, FEED)
  }
  if (kind !== 'middle') await sqlIn(home, 'UPDATE companies SET mail_bytes_checked = 1 WHERE id = ?', company.id)
  // No request writes such a row: it names a thread of another company.
  const ofThread = { type: 'email_threads', entity_id: THREAD_ID, operation: 'update' }
  const foreign = { sequence: FEED + 99, ...ofThread, version: 1, at: NEVER }
  if (kind === 'middle') {
    await insertion('changes', { company_id: company.id, ...foreign }, home).run()
    await sqlIn(home, 'UPDATE companies SET last_change = ?2 WHERE id = ?1', company.id, FEED + 99)
  }
  if (kind === 'last') {
    // While the company is changed, and later: of rows that it has, too.
    const late = [0, 1, 2, 3, 4, 5].flatMap((at) => [
      { ...foreign, type: 'clients', entity_id: '3', sequence: FEED + 100 + 2 * at },
      { ...foreign, type: 'orders', entity_id: '3', sequence: FEED + 101 + 2 * at },
      { ...foreign, type: at % 2 ? 'clients' : 'orders', entity_id: '1', sequence: 3 * FEED + at },
    ])
    const guard = { company_id: company.id, state: 'moved', destination: 'DB_TWO', slot: 7 }
    await env[home].batch([
      ...late.map((row) => insertion('changes', { company_id: company.id, ...row, previous_updated_at: 5 }, home)),
      insertion('company_guards', guard, home),
    ])
  }

  const notes: [string, unknown][] = []
  const actor: Actor & { notes: unknown } = Object.assign(company, {
    word,
    notes,
    tokenId: token?.id ?? 0,
    note: (name: string, value: unknown) => void notes.push([name, value]),
    send: async (...input: Parameters<TestCompany['call']>) => {
      const response = await actor.call(...input)
      const { status, headers, body } = response
      actor.note(`${input[0]} ${input[1].replace(/cursor=.*/, 'cursor')}`, [status, headers.get('etag'), body])
      return response
    },
    administer: async (method: string, path: string, body?: unknown) => {
      const response = await adminCall(method, `/companies/${company.id}${path}`, body)
      actor.note(`admin ${method} ${path.replace(/\/\d+/, '/ID')}`, [response.status, response.body])
      return response
    },
  })
  return actor
}

/** Tables of the directory, wherever the company's data is. */
const DIRECTORY = ['members', 'admin_log']

/** Everything that a run left, and noted, in words that do not tell one run from another. */
async function outcomeOf(actor: Awaited<ReturnType<typeof mintTwin>>): Promise<unknown> {
  const walk = (value: unknown, key = '', parent: Row = {}, table = ''): unknown => {
    if (Array.isArray(value)) return value.map((each) => walk(each, key, parent, table))
    if (typeof value === 'object' && value !== null) {
      return Object.fromEntries(
        Object.entries(value).map(([name, each]) => [
          name.replaceAll(String(actor.id), 'COMPANY'),
          walk(each, name, value as Row, table || key),
        ]),
      )
    }
    if (value === actor.id) return 'COMPANY'
    if (value !== null && (GLOBAL.test(key) || (key === 'entity_id' && OF_TOKEN.test(String(parent.action)))))
      return 'ID'
    if (key === 'id' && (GLOBAL_TABLES.test(table) || OF_GLOBAL.some((name) => name in parent))) return 'ID'
    if (typeof value === 'number') return value > 1_750_000_000_000 && value < NEVER ? 'TIME' : value
    if (typeof value !== 'string') return value
    return value
      .replaceAll(String(actor.id), 'COMPANY')
      .replaceAll(/[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}/g, 'UUID')
      .replaceAll(/\b(20(2[5-9]|[3-9]\d)-\d\d-\d\d)?T[\d:.]+Z/g, 'TIME')
      .replaceAll(/\b1[78]\d{11}\b/g, 'TIME')
      .replaceAll(/-[\da-f]{16}\b/g, '-HASH')
      .replaceAll(/\bwe_(?!0{15})[\da-f]{18}\b/g, 'ENDPOINT')
  }
  const everywhere = rowsOfDump(await dump([actor.id]), actor.id)
  const rows = [...Object.entries(await rowsOf(actor.id)), ...Object.entries(everywhere)].map(([table, all], index) => [
    `${index} ${table}`,
    all.map((row) => JSON.stringify(walk(row, '', row, table))).sort(),
  ])
  return { notes: walk(actor.notes), rows: Object.fromEntries(rows) }
}

/** Fields that differ between any two runs. */
const GLOBAL =
  /^(token_id|token_hash|request_id|slot|database_slot|next_cursor|secret|token|content_hash|hint|credentials|database_ms|source_id)$/
const GLOBAL_TABLES = /^(audit_log|admin_log|accounting_outbox|api_tokens|email_threads|email_thread_objects)$/
/** What an administrator did to such a row. */
const OF_TOKEN = /^(tokens|accounting_events)\./
/** A response with one of these has the id of such a row. */
const OF_GLOBAL = ['attempts', 'actor', 'action', 'permissions', 'token_id']

/** Runs the scenario alone, in a database of its own. */
async function runAlone(scenario: Scenario, home: Home): Promise<unknown> {
  await removeEverything()
  await migrate(true)
  const actor = await mintTwin('middle', home)
  await scenario(actor)
  return outcomeOf(actor)
}

/** Runs the scenario between two others. @returns what it left, and what the others had before and after it */
async function runBetween(scenario: Scenario, home: Home, homeOfOthers: Home) {
  const first = await mintTwin('first', homeOfOthers)
  const actor = await mintTwin('middle', home)
  const last = await mintTwin('last', homeOfOthers)
  const others = async () => [await rowsOf(first.id), await rowsOf(last.id)]
  const before = await others()
  await scenario(actor)
  return { outcome: await outcomeOf(actor), before, after: await others() }
}

/** Expects that a scenario neither depends on other companies nor changes anything of theirs. */
export async function expectSeparate(scenario: Scenario, home: Home, homeOfOthers = home): Promise<void> {
  const alone = await runAlone(scenario, home)
  const { outcome, before, after } = await runBetween(scenario, home, homeOfOthers)
  expect(outcome).toEqual(alone)
  expect(after).toEqual(before)
}
