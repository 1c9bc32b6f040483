import { createHash } from 'node:crypto'
import { FULL_TEXT, REMOVED } from '../../../src/operation/copies/tables.ts'
import { MOVED, type Written } from './kill.ts'
import { ask, type Name, type Service } from './service.ts'

/** What a company that was moved lacks, has twice, or has left behind. */
export async function check(service: Service, home: Name, token: string, all: readonly Written[]): Promise<string[]> {
  const findings: string[] = []
  const same = (what: string, found: unknown, wanted: unknown) => {
    const [one, two] = [JSON.stringify(found), JSON.stringify(wanted)]
    if (one !== two) findings.push(`${what}: ${one}, not ${two}`)
  }
  const read = <T = Record<string, unknown>>(text: string, ...values: (string | number)[]) =>
    service.read<T>(home, text, MOVED, ...values)
  const number = (text: string, ...values: (string | number)[]) => read<{ n: number }>(text, ...values)[0]?.n

  for (const { creates, clients, orders } of all) {
    for (const { requestId, kind, id, name } of creates) {
      const [table, column] =
        kind === 'client' ? (['clients', 'company_name'] as const) : (['orders', 'title'] as const)
      same(`${kind} ${name}`, read(`SELECT id FROM ${table} WHERE company_id = ? AND ${column} = ?`, name), [{ id }])
      const audited = number('SELECT count(*) AS n FROM audit_log WHERE company_id = ? AND request_id = ?', requestId)
      same(`audit of ${requestId}`, audited, 1)
      const keys = number('SELECT count(*) AS n FROM idempotency_keys WHERE company_id = ? AND key = ?', requestId)
      same(`key of ${requestId}`, keys, 1)
      if (kind === 'client') continue
      const events =
        "SELECT count(*) AS n FROM accounting_outbox WHERE company_id = ? AND order_id = ? AND operation = 'create'"
      same(`events of order ${id}`, number(events, id), 1)
    }
    for (const [id, { name, version }] of clients) {
      const [row] = read('SELECT first_name, version FROM clients WHERE company_id = ? AND id = ?', id)
      same(`client ${id}`, row, { first_name: name, version })
    }
    for (const [id, { title, deleted, version }] of orders) {
      const [row] = read('SELECT description, deleted, version FROM orders WHERE company_id = ? AND id = ?', id)
      same(`order ${id}`, row, { description: title, deleted: deleted ? 1 : 0, version })
    }
  }
  for (const [thread, hash] of all.flatMap(({ threads }) => [...threads])) {
    const shown = await ask(service, token, 'GET', `/api/v1/mail/email-threads/${thread}?account_email=a@x.example`)
    const text = String(shown.body.email_thread?.messages?.[0]?.text)
    same(`thread ${thread}`, [shown.status, createHash('sha256').update(text).digest('hex')], [200, hash])
  }
  for (const [thread, name] of all.flatMap(({ contexts }) => [...contexts])) {
    const [row] = read('SELECT sender_email FROM thread_contexts WHERE company_id = ? AND legacy_thread_id = ?', thread)
    same(`context ${thread}`, row, { sender_email: name })
  }
  const sample = all.flatMap(({ creates }) => creates.filter(({ kind }) => kind === 'client')).at(-1)
  if (sample) {
    const found = await ask(service, token, 'GET', `/api/v1/clients?q=${encodeURIComponent(sample.name)}`)
    const ids = found.body.data?.map(({ id }: { id: number }) => id)
    same(`search of ${sample.name}`, ids?.includes(sample.id), true)
  }

  const [counted] = read(
    `SELECT (SELECT count(*) FROM clients WHERE company_id = ?1 AND deleted = 0) AS client_count,
      (SELECT count(*) FROM orders WHERE company_id = ?1 AND deleted = 0) AS order_count,
      (SELECT coalesce(sum(bytes), 0) FROM email_thread_objects WHERE company_id = ?1 AND thread_id IS NOT NULL)
        + (SELECT coalesce(sum(text_bytes), 0) FROM email_threads WHERE company_id = ?1) AS mail_bytes,
      (SELECT max(sequence) FROM changes WHERE company_id = ?1) AS last_change`,
  )
  const [counters] = read('SELECT client_count, order_count, mail_bytes, last_change FROM companies WHERE id = ?')
  same('counters', counters, counted)
  const feed = read(
    'SELECT count(*) AS n, min(sequence) AS low, max(sequence) AS high FROM changes WHERE company_id = ?',
  )
  const last = Number(counters?.last_change)
  same('feed', feed[0], { n: last, low: 1, high: last })

  const old: Name = home === 'DB' ? 'DB_TWO' : 'DB'
  for (const { table } of REMOVED) {
    const count = `SELECT count(*) AS n FROM ${table} WHERE company_id = ?`
    same(`${table} in ${old}`, service.read(old, count, MOVED), [{ n: 0 }])
  }
  const slots = (name: Name) =>
    service.read<{ slot: number }>(name, 'SELECT slot FROM companies WHERE database IS NULL')
  for (const name of ['DB', 'DB_TWO'] as const) {
    const used = slots(name).map(({ slot }) => slot)
    for (const table of FULL_TEXT) {
      const places = service.read<{ place: number }>(name, `SELECT DISTINCT rowid >> 53 AS place FROM ${table}`)
      const strange = places.filter(({ place }) => !used.includes(place))
      same(`${table} of ${name}`, strange, [])
    }
    same(`foreign keys of ${name}`, service.read(name, 'PRAGMA foreign_key_check'), [])
  }
  same('moves', service.read('DB', 'SELECT company_id FROM moves'), [])
  return findings
}
