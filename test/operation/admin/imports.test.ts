import { env } from 'cloudflare:workers'
import { describe, expect, it } from 'vitest'
import { openDatabase } from '../../../src/kernel/db/client.ts'
import { type SeedInput, seedFile } from '../../../src/operation/copies/seed/file.ts'
import { countFile, planLoad } from '../../../src/operation/copies/seed/load.ts'
import { adminCall, adminCallWith, credentialsOf } from '../../support/admin.ts'
import { call, issuesOf, mintToken, sql } from '../../support/app.ts'
import { smallShop } from '../../support/small-shop.ts'
import { SEEDED } from '../../support/tables.ts'
import { stopTime } from '../../support/time.ts'
import { wrapBindings } from '../../support/wrap-bindings.ts'
import { freshShop, largeShop, load, ORDERS, partsOf, pathOf, readRows, sendPart } from './transfer-support.ts'

describe('the import of a seed file', () => {
  it('leaves settings of the company as they are where the file does not name them', async () => {
    const file = freshShop()
    await load(file)
    const path = `/companies/${file.company.id}`
    const changed = {
      ...{ name: 'Renamed', suspended: true, currency: 'EUR', accounting_sync_enabled: true },
      ...{ mail_quota_bytes: 1_000_000, storage_quota_bytes: 50_000_000 },
    }
    expect((await adminCall('PATCH', path, changed)).status).toBe(200)
    await load(file)
    expect((await adminCall('GET', path)).body).toMatchObject({ ...changed, name: file.company.name })
    const named = { suspended: false, currency: 'USD', storage_quota_bytes: 60_000_000 }
    await load({ ...file, company: { ...file.company, ...named } })
    expect((await adminCall('GET', path)).body).toMatchObject({ ...changed, name: file.company.name, ...named })
  })

  it('refuses a line whose total the API refuses', async () => {
    const file = freshShop()
    const items = [{ id: 1, title: 'Tee', quantity: 1_000_000, unit_price: 1_000 }]
    const orders = [{ id: 1, title: 'x', client_id: 1, invoice: { id: 1, items } }]
    const refused = await sendPart(file, { ...partsOf(file)[0], file: { ...file, orders } })
    expect(issuesOf(refused)).toEqual(['file.orders.0.invoice.items.0.unit_price'])
  })

  it('creates the company, and the same file again changes nothing', async () => {
    const file = freshShop()
    const [{ hash } = { hash: '' }] = partsOf(file)
    const responses = await load(file)
    const counts = countFile(seedFile.parse(file))
    expect(responses.map(({ status, body }) => [status, body])).toEqual([
      [200, { hash, part: 1, parts: 1, next_part: null, counts, differences: [] }],
    ])
    expect(counts).toEqual({
      ...{ order_statuses: 2, taxes: 1, clients: 2, orders: 2, invoices: 1, items: 1, payments: 1, artworks: 1 },
      ...{ catalog_items: 1, thread_contexts: 1, integrations: 2 },
    })
    const before = await readRows(file.company.id)
    expect(before.company).toMatchObject({ client_count: 1, order_count: 2, last_invoice_number: 1001 })
    expect(JSON.stringify(before)).not.toContain('very-secret-key')
    const credentials = { account_number: '7', api_key: 'very-secret-key' }
    expect(await credentialsOf(file.company.id, 'supplier_b')).toEqual(credentials)

    const again = await load(file)
    expect(again[0]?.body).toEqual(responses[0]?.body)
    expect(await readRows(file.company.id)).toEqual(before)
    const { body } = await adminCall('GET', `/companies/${file.company.id}/audit`)
    const entry = { actor: 'operator', action: 'companies.import', entity_id: `${hash} 1/1` }
    expect(body.data).toMatchObject([entry, entry])
  })

  it.each([1, 0])('starts the deliveries at once where it has an accounting system: %i', async (count) => {
    const { integrations, ...shop } = freshShop()
    const file = count > 0 ? { ...shop, integrations } : shop
    const started: string[] = []
    const bindings = wrapBindings(env, async (name, work) => {
      return name.startsWith('ACCOUNTING_DELIVERY.') ? void started.push(name) : work()
    })
    const { status } = await adminCallWith(bindings, 'POST', pathOf(file), partsOf(file)[0])
    expect([status, started]).toEqual([200, Array(count).fill('ACCOUNTING_DELIVERY.start')])
  })

  it('sets the quota of the company, and is loaded whole above it', async () => {
    const file = freshShop()
    const ofQuota = (storage_quota_bytes: number) => ({ ...file, company: { ...file.company, storage_quota_bytes } })
    const loaded = async (quota: number) => (await load(ofQuota(quota))).map(({ status }) => status)
    expect(await loaded(1)).toEqual([200])
    const token = await mintToken(file.company.id)
    const write = () => call(token, 'POST', '/clients', { company_name: 'New' })
    const refused = await write()
    expect([refused.status, refused.body.error.details.limit_bytes]).toEqual([413, 1])
    expect(await loaded(1_000_000)).toEqual([200])
    expect((await write()).status).toBe(200)
  })

  it('in many parts loads the rows of the whole file', async () => {
    const file = largeShop()
    const responses = await load(file)
    expect(responses.length).toBeGreaterThan(3)
    expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([200]))

    const whole = largeShop()
    const db = openDatabase(env.DB)
    const context = { companyId: whole.company.id, db, now: Date.now(), credentialsKey: env.CREDENTIALS_KEY }
    const plan = await planLoad(context, seedFile.parse(whole))
    expect([plan.issues, plan.conflict]).toEqual([[], undefined])
    await db.write(plan.statements)

    const [loaded, wanted] = [await readRows(file.company.id), await readRows(whole.company.id)]
    for (const table of SEEDED) expect(loaded[table]).toEqual(wanted[table])
    const { client_count, order_count, last_invoice_number, last_order_id } = wanted.company
    expect(loaded.company).toMatchObject({ client_count, order_count, last_invoice_number, last_order_id })
    expect(loaded.company).toMatchObject({ client_count: ORDERS, order_count: ORDERS })
    expect(loaded.invoice_items).toHaveLength(ORDERS + 599)
  })

  it('begins again when another file was loaded since it was interrupted', async () => {
    const file = largeShop()
    const [first, second] = partsOf(file)
    const status = `${pathOf(file)}/${first?.hash}`
    await sendPart(file, first)
    await load({ company: { ...file.company, storage_quota_bytes: 60_000_000 } })
    expect((await adminCall('GET', status)).body).toMatchObject({ next_part: 2 })
    expect((await load(smallShop(file.company.id))).map(({ status: each }) => each)).toEqual([200])
    expect((await adminCall('GET', status)).body).toMatchObject({ next_part: 1 })
    expect((await sendPart(file, second)).body.error.message).toBe('Part 1 is not loaded yet: send it first')
  })

  it('continues behind the last part that was loaded, and refuses a gap', async () => {
    const file = largeShop()
    const parts = partsOf(file)
    const send = async (index: number, others: object = {}) => {
      const { body } = await sendPart(file, { ...parts[index], ...others })
      return body.error?.message ?? body.next_part
    }
    const status = `${pathOf(file)}/${parts[0]?.hash}`
    expect((await adminCall('GET', status)).status).toBe(404)
    expect(await send(1)).toBe('Part 1 is not loaded yet: send it first')
    expect(await sql('SELECT * FROM companies WHERE id = ?', file.company.id)).toEqual([])
    expect(await send(0)).toBe(2)
    expect((await adminCall('GET', status)).body).toMatchObject({ parts: parts.length, next_part: 2 })
    expect(await send(2)).toBe('Part 2 is not loaded yet: send it first')
    const message = `This import has ${parts.length} parts: send it again from part 1`
    expect(await send(1, { parts: parts.length + 1 })).toBe(message)
    expect(await send(1)).toBe(3)
    // Its response may have been lost.
    expect(await send(1)).toBe(3)
    for (const index of parts.keys()) if (index > 1 && index < parts.length - 1) await send(index)
    await send(1)
    expect((await adminCall('GET', status)).body).toMatchObject({ next_part: parts.length })
    await send(parts.length - 1)
    expect((await adminCall('GET', status)).body).toMatchObject({ hash: parts[0]?.hash, next_part: null })
    const count = (table: string) => sql(`SELECT count(*) AS n FROM ${table} WHERE company_id = ?`, file.company.id)
    expect([await count('orders'), await count('invoice_items')]).toEqual([[{ n: ORDERS }], [{ n: ORDERS + 599 }]])
  })

  it('is refused where the company is created in another database meanwhile', async () => {
    const file = freshShop()
    const { id, name } = file.company
    // A request every 30 seconds reads the schema, too.
    stopTime()
    expect((await adminCall('GET', `/companies/${id}`)).status).toBe(404)
    let reads = 0
    const racing = wrapBindings(env, async (binding, work) => {
      const isFirst = binding === 'DB.batch' && ++reads === 1
      const result = await work()
      if (isFirst) expect((await adminCall('POST', '/companies', { id, name, database: 'DB_TWO' })).status).toBe(200)
      return result
    })
    const { status, body } = await adminCallWith(racing, 'POST', pathOf(file), partsOf(file)[0])
    expect([status, body.error?.message]).toEqual([409, expect.stringContaining('created in another database')])
    expect(await sql('SELECT * FROM clients WHERE company_id = ?', id)).toEqual([])
  })

  it('into an empty company is refused where the company has any content', async () => {
    const at = '2026-01-31T10:00:00.000Z'
    const contents: Omit<SeedInput, 'company'>[] = [
      { clients: [{ id: 9, company_name: 'Gone', deleted: true }] },
      { catalog_items: [{ id: 9, title: 'Tee', price: 1 }] },
      { order_statuses: [{ id: 9, title: 'New', color: '#fff' }] },
      { taxes: [{ id: 9, name: 'State', rate: 5 }] },
      { thread_contexts: [{ thread_id: 't', orders_data: [], fetched_at: at, updated_at: at }] },
      {},
    ]
    for (const content of contents) {
      const file = freshShop()
      const { company } = file
      await load({ company, ...content })
      const times = { last_synced_at: at, created_at: at, updated_at: at }
      const thread = { ...times, account_email: 'a@x.example', legacy_thread_id: 't', messages: [] }
      const versions = { id: crypto.randomUUID(), deleted: false, revision: 1, content_revision: 1 }
      if (Object.keys(content).length === 0) {
        const { status } = await adminCall('POST', `${pathOf(file)}/email-threads`, { ...thread, ...versions })
        expect(status).toBe(200)
      }
      for (const check of [true, false]) {
        const { status, body } = await sendPart(file, partsOf(file, { check, into_empty: true })[0])
        const message = `Company ${company.id} is not empty: import into a new one`
        expect([content, check, status, body.error?.message]).toEqual([content, check, 409, message])
      }
    }
  })

  it('into an empty company goes on where it has begun, and another one is refused', async () => {
    const file = largeShop()
    const send = async (given: SeedInput, index: number, check = false) =>
      (await sendPart(given, partsOf(given, { check, into_empty: true })[index])).status
    await load({ company: file.company })
    const parts = partsOf(file)
    for (const check of [true, false]) {
      for (const index of parts.keys()) expect([index, await send(file, index, check)]).toEqual([index, 200])
    }
    expect(await send(file, 0, true)).toBe(200)
    expect(await send({ ...file, taxes: [] }, 0)).toBe(409)
  })

  it('checks every part before the first is loaded, and writes nothing meanwhile', async () => {
    const file = largeShop()
    const good = await load(file, true)
    expect(new Set(good.map(({ status }) => status))).toEqual(new Set([200]))
    file.orders?.push({ id: 9_999, title: 'x', client_id: 77_777 })
    const responses = await load(file, true)
    const refused = responses.filter(({ status }) => status !== 200)
    const message = '`client_id` of order 9999: there is no client 77777, in the file or in the database'
    expect(refused.map(({ body }) => body.error.details.issues)).toEqual([[{ path: 'file', message }]])
    expect(await sql('SELECT * FROM companies WHERE id = ?', file.company.id)).toEqual([])
    expect(await sql('SELECT * FROM imports WHERE company_id = ?', file.company.id)).toEqual([])
  })

  const order = (fields: object) => ({ orders: [{ id: 9, title: 'x', client_id: 1, ...fields }] })
  const client = (fields: object) => ({ clients: [{ id: 9, company_name: 'x', ...fields }] })
  it.each<[string, object, [number, string]]>([
    [
      'the invoice of another order',
      order({ invoice: { id: 1, number: '5' } }),
      [400, '`file` invoice 1 belongs to order 1 in the database'],
    ],
    [
      'lines and payments of another invoice, and an artwork of another order',
      order({
        artworks: [{ id: 1, name: 'a' }],
        invoice: {
          ...{ id: 9, number: '5', payments: [{ id: 1, amount: 1 }] },
          items: [{ id: 1, title: 'i', quantity: 1, unit_price: 1 }],
        },
      }),
      [
        400,
        '`file` line 1 belongs to invoice 1 in the database; `file` payment 1 belongs to invoice 1 in the database; `file` artwork 1 belongs to order 1 in the database',
      ],
    ],
    [
      'a number of another invoice',
      order({ invoice: { id: 9, number: '1001' } }),
      [409, 'an invoice number is already that of another invoice in the database: 1001'],
    ],
    [
      'a second invoice of an order',
      order({ id: 1, invoice: { id: 9, number: '9' } }),
      [409, 'an order already has another invoice in the database: 1'],
    ],
    [
      'an external_id of another client',
      client({ external_id: 'cust 1' }),
      [409, 'an external_id is already that of another client in the database: cust 1'],
    ],
    [
      'an external_id of another order',
      order({ external_id: 'web-1' }),
      [409, 'an external_id is already that of another order in the database: web-1'],
    ],
    [
      'an id twice',
      { clients: ['x', 'y'].map((company_name) => ({ id: 9, company_name })) },
      [400, '`file` `clients` must not contain id 9 twice'],
    ],
    ['an invalid field', client({ id: 0 }), [400, '`file.clients.0.id` must be greater than 0']],
    [
      'a time beyond the year 9999',
      client({ created_at: '9999-12-31T23:59:59-23:59' }),
      [400, '`file.clients.0.created_at` must be in the years 0000 to 9999 in UTC'],
    ],
  ])('refuses %s, checked or not, and changes nothing', async (_, change, [status, message]) => {
    const file = freshShop()
    await load(file)
    const before = await readRows(file.company.id)
    const changed = { company: file.company, catalog_items: [{ id: 7, title: 'Never' }], ...change } as SeedInput
    for (const check of [true, false]) {
      const [refused] = await load(changed, check)
      expect([refused?.status, refused?.body.error.message]).toEqual([status, message])
    }
    expect(await readRows(file.company.id)).toEqual(before)
  })

  it('takes a part of a file of seven million orders', async () => {
    const [part] = partsOf(freshShop(), { check: true })
    const post = (parts: number) => adminCall('POST', `/companies/${part?.file.company.id}/imports`, { ...part, parts })
    expect((await post(100_000)).status).toBe(200)
    expect((await post(100_001)).status).toBe(400)
  })

  it('refuses another company, too large a body and a part that there is not', async () => {
    const file = freshShop()
    const [part] = partsOf(file)
    const post = (body: object, company = file.company.id) => adminCall('POST', `/companies/${company}/imports`, body)
    expect((await post({ ...part }, file.company.id + 1)).body.error.message).toBe(
      '`file.company.id` must be the company of the path',
    )
    expect((await post({ ...part, file: { ...file, $schema: 'x'.repeat(5_300_000) } })).status).toBe(413)
    expect((await post({ ...part, part: 2 })).body.error.message).toBe('`part` must be at most `parts`')
    expect(await sql('SELECT * FROM companies WHERE id = ?', file.company.id)).toEqual([])
  })
})
