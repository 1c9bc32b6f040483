import { env } from 'cloudflare:workers'
import { beforeEach, describe, expect, it } from 'vitest'
import { decryptCredentials, encryptCredentials } from '../../../src/kernel/db/credentials.ts'
import { adminCallWith } from '../../support/admin.ts'
import { type Home, homeOf, mintCompany, sql, sqlIn } from '../../support/app.ts'
import { insertion } from '../../support/rows.ts'

const OLD = env.CREDENTIALS_KEY
const NEW = btoa('n'.repeat(32))
const TABLES = ['integrations', 'accounting_connections', 'webhook_endpoints']

beforeEach(async () => {
  for (const home of ['DB', 'DB_TWO'] as const) {
    for (const table of [...TABLES, 'admin_log']) await sqlIn(home, `DELETE FROM ${table}`)
  }
})

const rotate = (keys: string) => adminCallWith({ CREDENTIALS_KEY: keys }, 'POST', '/key-rotation')

/** Rotates until nothing is left to do. @returns how many values each request encrypted, and the last response */
async function rotateAll(keys: string) {
  for (const counts: number[] = []; ; ) {
    const { reencrypted, ...rest } = (await rotate(keys)).body
    if (reencrypted === 0) return { counts, ...rest }
    counts.push(reencrypted)
  }
}

/** A company with credentials of each kind. */
async function fill(key: string, home: Home = 'DB'): Promise<number> {
  const { id } = await mintCompany({ home })
  const seal = (kind: string) => encryptCredentials(key, id, kind, { of: kind })
  const hook = `we_${id}`
  const [storage, accounting, webhook] = [seal('storage'), seal('accounting_sync'), seal(`webhook/${hook}`)]
  const [url, times] = ['https://a.example', { created_at: 0, updated_at: 0 }]
  const rows: [string, object][] = [
    ['integrations', { kind: 'storage', enabled: 1, base_url: url, credentials: await storage, updated_at: 7 }],
    ['accounting_connections', { remote_account: 'x', tokens: await accounting }],
    ['webhook_endpoints', { id: hook, url, secret: await webhook, event_types: '[]', position: 0, ...times }],
  ]
  await env[home].batch(rows.map(([table, row]) => insertion(table, { company_id: id, ...row })))
  return id
}

/** Where each of them is, and for what it is encrypted. */
const storedOf = (id: number) => [
  ['integrations', 'credentials', 'storage'],
  ['accounting_connections', 'tokens', 'accounting_sync'],
  ['webhook_endpoints', 'secret', `webhook/we_${id}`],
]

describe('the rotation of the key', () => {
  it('encrypts everything again, in every company and database, and says when the old key may go', async () => {
    const ids = [await fill(OLD), await fill(OLD), await fill(OLD, 'DB_TWO')]
    expect((await rotate(OLD)).body).toMatchObject({ reencrypted: 0, remaining: 0 })
    expect((await rotate(`${NEW},${OLD}`)).body).toEqual({ reencrypted: 6, unreadable: 0, remaining: 3 })
    expect(await rotateAll(`${NEW},${OLD}`)).toEqual({ counts: [3], unreadable: 0, remaining: 0 })
    const entries = await sqlIn('DB', "SELECT entity_id FROM admin_log WHERE action = 'keys.rotate' ORDER BY id")
    expect(entries).toEqual([{ entity_id: '6' }, { entity_id: '3' }])
    for (const id of ids) {
      for (const [table, column = '', of = ''] of storedOf(id)) {
        const [row] = await sql(`SELECT ${column} FROM ${table} WHERE company_id = ?`, id)
        expect(await decryptCredentials(NEW, id, of, String(row?.[column]))).toEqual({ of })
      }
      expect(await sql('SELECT updated_at FROM integrations WHERE company_id = ?', id)).toEqual([{ updated_at: 7 }])
    }
    expect((await rotate(`${NEW},${OLD}`)).body).toEqual({ reencrypted: 0, unreadable: 0, remaining: 0 })
    expect((await rotateAll(`${OLD},${NEW}`)).counts).toEqual([6, 3])
  })

  it('does not end while anything uses a key that is unknown', async () => {
    const id = await fill(btoa('?'.repeat(32)))
    expect(await rotateAll(`${NEW},${OLD}`)).toMatchObject({ unreadable: 3, remaining: 3 })
    for (const table of TABLES) await sql(`DELETE FROM ${table} WHERE company_id = ?`, id)
    expect((await rotate(`${NEW},${OLD}`)).body).toMatchObject({ remaining: 0 })
  })

  it('takes values in portions', async () => {
    await fill(OLD)
    const id = await fill(OLD)
    const kinds = Array.from({ length: 114 }, (_, index) => `kind ${index}`)
    const row = { company_id: id, enabled: 1, base_url: 'https://a.example', updated_at: 0 }
    const rows = kinds.map(async (kind) => {
      return insertion('integrations', { ...row, kind, credentials: await encryptCredentials(OLD, id, kind, {}) })
    })
    await env[homeOf(id)].batch(await Promise.all(rows))
    expect(await rotateAll(`${NEW},${OLD}`)).toMatchObject({ counts: [100, 20], remaining: 0 })
  })

  it.each(['read_only', 'writable'])('counts the values of a company whose copy is %s', async (state) => {
    await fill(NEW)
    const id = await fill(OLD)
    await sql(
      "INSERT INTO company_guards (company_id, state, destination, slot, read_only_at) VALUES (?, ?, 'DB_TWO', 5, ?)",
      ...[id, state, Date.now()],
    )
    expect((await rotateAll(`${NEW},${OLD}`)).remaining).toBe(3)
    await sql("UPDATE company_guards SET state = 'moved' WHERE company_id = ?", id)
    expect((await rotate(`${NEW},${OLD}`)).body).toMatchObject({ reencrypted: 0, remaining: 0 })
    await sql('DELETE FROM company_guards WHERE company_id = ?', id)
    expect(await rotateAll(`${NEW},${OLD}`)).toMatchObject({ counts: [3], remaining: 0 })
  })

  it('finds values behind a whole page of unreadable ones', async () => {
    await mintCompany()
    const id = await fill(OLD)
    await sql(
      `INSERT INTO integrations (company_id, kind, enabled, base_url, credentials, updated_at)
       WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 250)
       SELECT ?, 'kind ' || i, 0, 'https://a.example', 'unreadable', 0 FROM n`,
      id,
    )
    expect(await rotateAll(`${NEW},${OLD}`)).toMatchObject({ unreadable: 250, remaining: 250 })
  })

  it('is refused while a move is not finished', async () => {
    await mintCompany()
    const id = await fill(OLD)
    await sql("INSERT INTO moves VALUES (?, 'DB', 'DB_TWO', '{}', 0, 0)", id)
    const { status, body } = await rotate(`${NEW},${OLD}`)
    expect([status, body.error.message]).toEqual([
      409,
      `The move of company ${id} is not finished: finish it or take it back, and repeat this. Keep the old key`,
    ])
    await sql('DELETE FROM moves WHERE company_id = ?', id)
    expect(await rotateAll(`${NEW},${OLD}`)).toMatchObject({ counts: [3], remaining: 0 })
  })

  it('is refused while a database of companies has no binding, whose values nobody sees', async () => {
    await mintCompany()
    const id = await fill(OLD)
    const place = (database: string | null) =>
      sqlIn('DB', 'UPDATE companies SET database = ?1, database_slot = ?2 WHERE id = ?3', database, database && 5, id)
    await place('DB_GONE')
    const { status, body } = await rotate(`${NEW},${OLD}`)
    await place(null)
    expect([status, body.error?.message]).toEqual([
      409,
      'There is no binding of DB_GONE, which has companies: add it, and repeat this',
    ])
  })

  it.each(['', 'short', `${NEW},short`])('is refused in one line with the malformed key %j', async (keys) => {
    const { status, body } = await rotate(keys)
    expect([status, body.error.message]).toEqual([409, 'CREDENTIALS_KEY must be 32 bytes in base64.'])
  })
})
