import { describe, expect, it } from 'vitest'
import { initial } from '../../../src/resources/clients/contract.ts'
import { eachValue, expect200, issuesOf, mintCompany, send, sql } from '../../support/app.ts'
import { idsOf } from '../../support/lists.ts'
import { moveTime, stopTime } from '../../support/time.ts'

const company = await mintCompany()

const DEFAULTS = {
  ...{ ...initial, first_name: null, last_name: null, email: null, website: null, phone: null, external_id: null },
  ...{ accounting_sync_enabled: false, tax_exempt: false, tax_exempt_reason: null, deleted: false, version: 1 },
}

async function create(body: Record<string, unknown>, by = company) {
  return expect200(await by.call('POST', '/clients', body)).client
}

describe('POST /clients', () => {
  it('requires only a company name', async () => {
    const client = await create({ company_name: 'Harbor' })
    expect(client).toEqual({
      ...DEFAULTS,
      id: expect.any(Number),
      company_name: 'Harbor',
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      updated_at: client.created_at,
    })
    expect(Math.abs(Date.now() - Date.parse(client.created_at))).toBeLessThan(60_000)
  })

  it('accepts every field, trims text and stores the website as sent', async () => {
    const fields = {
      ...{ company_name: ' \tÄrzte & Söhne\u3000', first_name: ' Jo ', last_name: ' Weiß' },
      ...{ email: ' Jo.Weiss@X.Example ', website: ' http://x.example/a b ', phone: ' (555) 010-0142 ' },
      ...{ accounting_sync_enabled: true, tax_exempt: true, tax_exempt_reason: ' Non-profit ', deleted: true },
    }
    const expected = Object.entries(fields).map(([name, value]) => [
      name,
      typeof value === 'string' && name !== 'website' ? value.trim() : value,
    ])
    expect(await create(fields)).toMatchObject(Object.fromEntries(expected))
  })

  const REJECTED: [field: string, ...values: unknown[]][] = [
    ['company_name', ' \n\t\u00a0', 'a\ud800b'],
    ['first_name', ''],
    ['last_name', 'x'.repeat(256)],
    ['phone', ' '],
    ['email', '', 'a@b', 'a b@x.example', '.a@x.example', 'a..b@x.example', '"a"@x.example', 'a@x.e1'],
    ['email', `${'x'.repeat(250)}@x.example`],
    ['website', '', 'x'.repeat(256)],
    ['tax_exempt_reason', 'x'.repeat(1001)],
    ['tax_exempt', 1],
    ['accounting_sync_enabled', 'true'],
    ['deleted', 'false'],
    ['created_at', '2026-01-01T00:00:00.000Z'],
    ...['company_id', 'id', 'constructor'].map((name): [string, number] => [name, 1]),
  ]
  it.each(eachValue(REJECTED))('rejects %s: %j', async (field, value) => {
    const response = await company.call('POST', '/clients', { company_name: 'a', [field]: value })
    expect(issuesOf(response)).toEqual([field])
  })

  it('rejects __proto__ as an unknown field', async () => {
    const response = await company.call('POST', '/clients', '{"company_name":"a","__proto__":{"deleted":true}}')
    expect(issuesOf(response)).toEqual(['__proto__'])
  })

  it('accepts 255 characters of any script, and 1,000 of a reason', async () => {
    const name = '🧵'.repeat(255)
    expect((await create({ company_name: name, tax_exempt_reason: 'é'.repeat(1000) })).company_name).toBe(name)
    expect(issuesOf(await company.call('POST', '/clients', { company_name: `${name}🧵` }))).toEqual(['company_name'])
  })
})

describe('the lookup of a client', () => {
  it('finds it by id, by email in the path, and by email in the query, which takes precedence', async () => {
    const client = await create({ company_name: 'a', email: 'Look+Up@x.example' })
    const other = await create({ company_name: 'b', email: 'other@x.example' })
    for (const path of [
      `/clients/${client.id}`,
      '/clients/Look%2BUp%40x.example',
      '/clients/look+up@X.EXAMPLE',
      '/clients/-?email=look%2Bup%40x.example',
      `/clients/${other.id}?email=LOOK%2BUP@x.example`,
      '/clients/other%40x.example?email=look%2Bup%40x.example',
      '/clients/by-email?email=look%2Bup%40x.example%20',
    ]) {
      expect((await company.call('GET', path)).body, path).toEqual({ client })
      const changed = (await company.call('PATCH', path, { phone: path })).body.client
      expect(changed, path).toMatchObject({ id: client.id, phone: path })
      await company.call('PATCH', path, { phone: null })
      const { updated_at, version } = (await company.call('GET', path)).body.client
      Object.assign(client, { updated_at, version })
    }
  })

  it('refuses an email in the query that begins with a space, which may be an unencoded plus sign', async () => {
    await create({ company_name: 'a', email: 'leading@x.example' })
    const plus = await create({ company_name: 'b', email: '+leading@x.example' })
    expect(issuesOf(await company.call('DELETE', '/clients/-?email=+leading@x.example'))).toEqual(['email'])
    expect((await company.call('GET', '/clients/-?email=%2Bleading@x.example')).body.client).toEqual(plus)
  })

  const NO_INTEGERS = '0 -1 1.0 01 1e3 x 9007199254740993 99999999999999999999'.split(' ')
  const UNKNOWN = '%20 1%00 2147483648 nobody@x.example %E0%A4%A a%2Fb by-external-id'.split(' ')
  it.each([...NO_INTEGERS, ...UNKNOWN])('returns 404 for %s', async (segment) => {
    for (const [method, body] of [['GET'], ['PATCH', { phone: '1' }]] as const) {
      expect((await company.call(method, `/clients/${segment}`, body)).status).toBe(404)
    }
  })

  it.each(["R&D/o'~`'@shop.example", 'a@b.xn--p1ai', 'A@C.XN--P1AI'])('finds %s by path and query', async (email) => {
    const { id } = await create({ company_name: 'a', email })
    for (const sent of [email, email.toLowerCase(), email.toUpperCase()].map(encodeURIComponent)) {
      for (const path of [sent, `x?email=${sent}`]) {
        expect((await company.call('GET', `/clients/${path}`)).body.client?.id, path).toBe(id)
      }
    }
  })

  it('returns 400 for an invalid email in the query, and 404 for an unknown one', async () => {
    expect(issuesOf(await company.call('PATCH', '/clients/1?email=nobody', { phone: '1' }))).toEqual(['email'])
    for (const email of ['nobody', '']) {
      expect(issuesOf(await company.call('GET', `/clients/1?email=${email}`))).toEqual(['email'])
    }
    expect((await company.call('GET', '/clients/1?email=nobody@x.example')).status).toBe(404)
  })

  it('returns 404 for an email in the path that no client can have, whatever it is without regard to case', async () => {
    const { id } = await create({ company_name: 'a', email: 'finance@strasse.example' })
    for (const email of ['ﬁnance@strasse.example', 'finance@straße.example', 'finance@ſtrasse.example']) {
      for (const [method, body] of [['GET'], ['PATCH', { phone: '1' }], ['DELETE']] as const) {
        const { status } = await company.call(method, `/clients/${encodeURIComponent(email)}`, body)
        expect(status, `${method} ${email}`).toBe(404)
      }
    }
    const { client } = (await company.call('GET', '/clients/FINANCE%40Strasse.example')).body
    expect(client).toMatchObject({ id, deleted: false, version: 1 })
  })

  it('matches whole emails only, and no patterns', async () => {
    await create({ company_name: 'a', email: 'exact_one@x.example' })
    for (const name of ['exact@x.example', 'exactXone@x.example', 'xact_one@x.example', '%25@x.example']) {
      expect((await company.call('GET', `/clients/${name}`)).status, name).toBe(404)
    }
    expect((await company.call('GET', '/clients/exact_one@x.exampl')).status).toBe(404)
  })

  it('prefers a client that is not deleted, then the lowest id, in reads and updates', async () => {
    const email = 'twins@x.example'
    const [first, second, third] = [
      await create({ company_name: 'first', email, deleted: true }),
      await create({ company_name: 'second', email }),
      await create({ company_name: 'third', email: email.toUpperCase() }),
    ]
    const read = async () => (await company.call('GET', `/clients/${email}`)).body.client.id
    const change = async (body: unknown) => (await company.call('PATCH', `/clients/${email}`, body)).body.client.id
    expect(await read()).toBe(second.id)
    expect(await change({ deleted: true })).toBe(second.id)
    expect(await read()).toBe(third.id)
    expect(await change({ deleted: true })).toBe(third.id)
    expect(await read()).toBe(first.id)
    expect(await change({ email: 'moved@x.example' })).toBe(first.id)
    expect(await read()).toBe(second.id)
  })
})

describe('PATCH /clients/{id}', () => {
  it.each([
    { company_name: 'b' },
    { first_name: 'b' },
    { last_name: null },
    { email: 'b@x.example' },
    { email: null },
    { website: null },
    { phone: '+1 (555) 7' },
    { accounting_sync_enabled: true },
    { tax_exempt: false, tax_exempt_reason: null },
    { deleted: true },
  ])('changes only the fields that are sent: %j', async (change) => {
    const person = { first_name: 'f', last_name: 'l', email: 'a@x.example', website: 'w', phone: '1' }
    const before = await create({ company_name: 'a', ...person, tax_exempt: true, tax_exempt_reason: 'r' })
    await scheduler.wait(2)
    const { body } = await company.call('PATCH', `/clients/${before.id}`, change)
    expect(body.client).toEqual({ ...before, ...change, version: 2, updated_at: expect.any(String) })
    expect(Date.parse(body.client.updated_at)).toBeGreaterThan(Date.parse(before.updated_at))
    expect((await company.call('GET', `/clients/${before.id}`)).body).toEqual(body)
  })

  it('is dated when its body has arrived, behind changes made meanwhile', async () => {
    const [slow, fast] = [await create({ company_name: 'slow' }), await create({ company_name: 'fast' })]
    stopTime()
    const startedAt = Date.now()
    const pull = async (controller: ReadableStreamDefaultController) => {
      moveTime(2_000)
      await company.call('PATCH', `/clients/${fast.id}`, { phone: '1' })
      moveTime(1_000)
      controller.enqueue(new TextEncoder().encode('{"phone":"2"}'))
      controller.close()
    }
    const { status, body } = await send(
      new Request(`https://api.test/api/v1/clients/${slow.id}`, {
        method: 'PATCH',
        headers: { authorization: `Bearer ${company.token}`, 'content-type': 'application/json' },
        body: new ReadableStream({ pull }, { highWaterMark: 0 }),
      }),
    )
    expect([status, Date.parse(body.client.updated_at) - startedAt]).toEqual([200, 3_000])
    const since = new Date(startedAt + 2_001).toISOString()
    expect((await company.call('GET', `/clients?updated_since=${since}`)).body.data).toEqual([body.client])
  })

  it('returns 400 for an empty body, and writes nothing when a field is invalid', async () => {
    const { id } = await create({ company_name: 'a' })
    expect(issuesOf(await company.call('PATCH', `/clients/${id}`, {}))).toEqual([''])
    for (const bad of [{ company_id: 2 }, { company_name: null }, { company_name: ' ' }, { email: 'x' }, { nope: 1 }]) {
      const response = await company.call('PATCH', `/clients/${id}`, { first_name: 'changed', ...bad })
      expect(issuesOf(response)).toEqual(Object.keys(bad))
    }
    expect((await company.call('GET', `/clients/${id}`)).body.client.first_name).toBeNull()
  })

  it('applies all concurrent updates of different fields', async () => {
    const { id } = await create({ company_name: 'a' })
    const person = { first_name: 'f', last_name: 'l', email: 'many@x.example', website: 'w', phone: '555 0100' }
    const flags = { accounting_sync_enabled: true, tax_exempt: true, tax_exempt_reason: 'r' }
    const changes = { company_name: 'b', ...person, ...flags }
    await Promise.all(
      Object.entries(changes).map(([name, value]) => company.call('PATCH', `/clients/${id}`, { [name]: value })),
    )
    expect((await company.call('GET', `/clients/${id}`)).body.client).toMatchObject(changes)
    for (const q of ['f l', '5550100', 'many@']) {
      const found = await company.call('GET', `/clients?q=${encodeURIComponent(q)}`)
      expect(idsOf(found.body.data)).toContain(id)
    }
  })

  it.each(['id', 'email'])(
    'by %s, deletes it once: a repeated deletion leaves its version, the audit and the feed',
    async (by) => {
      const one = await mintCompany()
      const { id } = await create({ company_name: 'Twice', email: 'twice@x.example' }, one)
      const remove = async () => {
        const path = `/clients/${by === 'id' ? id : 'twice@x.example'}`
        return (await one.call('DELETE', path, undefined, { 'Idempotency-Key': crypto.randomUUID() })).body.client
      }
      const first = await remove()
      expect(first).toMatchObject({ id, deleted: true, version: 2 })
      await sql('UPDATE audit_log SET at = at - 120000 WHERE company_id = ?', one.id)
      expect(await remove()).toEqual(first)
      expect((await one.call('GET', '/changes')).body.data).toHaveLength(2)
      expect(await sql('SELECT action FROM audit_log WHERE company_id = ?', one.id)).toHaveLength(2)
    },
  )
})
