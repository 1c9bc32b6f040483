import { runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { describe, expect, inject, it } from 'vitest'
import type { Env } from '../../../src/env.ts'
import { look } from '../../../src/simulators/steer.ts'
import { CREDENTIALS as CREDENTIALS_A } from '../../../src/simulators/supplier-a-catalogue.ts'
import { CREDENTIALS as CREDENTIALS_B } from '../../../src/simulators/supplier-b-catalogue.ts'
import { Shop } from '../../delivery/accounting/shop.ts'
import { openResolver } from '../../delivery/webhooks/support.ts'
import { giveStorage, mintCompanyWithOrder, scopeUrl } from '../../resources/files/support.ts'
import { mintShop } from '../../resources/products/support.ts'
import { adminCallWith } from '../../support/admin.ts'
import { freshId, mintCompany, request, send, sql, type TestCompany } from '../../support/app.ts'

/** The bindings of a deployment: no address on loopback, and a resolver that knows one name, of a private network. */

// The companies below are not the first of their database.
await mintShop({ home: 'DB' })
const WEBHOOK_RESOLVER = await openResolver({ 'inside.example': '10.0.0.1' })
const deployed: Env = Object.assign({}, env, { WEBHOOK_LOOPBACK: '', WEBHOOK_RESOLVER })

const ACCOUNTING = { realm_id: '1', client_id: 'c', client_secret: 's', refresh_token: 'r' }
const PUBLIC = 'https://1.1.1.1'
const S3 = { bucket: 'b', region: 'auto', credentials: { access_key_id: 'a', secret_access_key: 's' } }
/** Each address that an integration has: its kind, its field and an integration with it. */
const FIELDS: [kind: string, field: string, integration: (address: string) => object][] = [
  ['supplier_a', 'base_url', (base_url) => ({ base_url, credentials: CREDENTIALS_A })],
  ['supplier_b', 'base_url', (base_url) => ({ base_url, credentials: CREDENTIALS_B })],
  ['accounting_sync', 'base_url', (base_url) => ({ base_url, credentials: ACCOUNTING })],
  ['accounting_sync', 'token_url', (token_url) => ({ base_url: PUBLIC, token_url, credentials: ACCOUNTING })],
  ['storage', 'endpoint', (endpoint) => ({ endpoint, ...S3 })],
]
const NOT_PUBLIC = 'must resolve to public addresses only'
const REFUSED = [
  ['https://10.0.0.1', NOT_PUBLIC],
  ['https://[::1]:22', 'must have the port 443, or one above 1023'],
  ['https://[::1]', NOT_PUBLIC],
  ['https://localhost', NOT_PUBLIC],
  ['http://127.0.0.1:8080', 'must be an https address'],
] as const

describe('the address of an integration', () => {
  it.each(FIELDS)('of %s (%s) is public, or on loopback in development', async (kind, field, integration) => {
    const company = await mintCompany()
    const put = async (bindings: Env, address: string) => {
      const path = `/companies/${company.id}/integrations/${kind}`
      const { status, body } = await adminCallWith(bindings, 'PUT', path, integration(address))
      return [address, status, body.error?.details.issues]
    }
    for (const [address, message] of REFUSED) {
      expect(await put(deployed, address)).toEqual([address, 400, [{ path: field, message }]])
    }
    expect(await sql('SELECT kind FROM integrations WHERE company_id = ?', company.id)).toEqual([])
    expect(await put(deployed, 'https://public.example')).toEqual(['https://public.example', 200, undefined])
    for (const [address, message] of REFUSED) {
      const refusal = [address, 400, [{ path: field, message }]]
      expect(await put(env, address)).toEqual(address.includes('10.0.0.1') ? refusal : [address, 200, undefined])
    }
  })

  it.each(FIELDS)('of %s (%s) is refused in a seed file too', async (kind, field, integration) => {
    const company = { id: 1_000 + freshId(), name: 'Shop' }
    const path = `file.integrations.${kind}.${field}`
    for (const [address, message] of REFUSED) {
      const file = { company, integrations: { [kind]: integration(address) } }
      const part = { hash: 'a'.repeat(64), part: 1, parts: 1, check: false, known: {}, file }
      const { status, body } = await adminCallWith(deployed, 'POST', `/companies/${company.id}/imports`, part)
      expect([address, status, body.error?.details.issues]).toEqual([address, 400, [{ path, message }]])
    }
    expect(await sql('SELECT id FROM companies WHERE id = ?', company.id)).toEqual([])
  })
})

/** Integrations as they were stored before these rules, or as their name leads elsewhere by now. */
describe.each([
  ['on loopback', null, 'must be an https address'],
  ['whose name leads into a private network by now', 'https://inside.example', NOT_PUBLIC],
])('a stored address %s is not called', (_, address, message) => {
  const moveTo = (to: string, { id }: TestCompany, kind: string) =>
    sql('UPDATE integrations SET base_url = ? WHERE company_id = ? AND kind = ?', to, id, kind)
  const move = async (company: TestCompany, kind: string) => address && moveTo(address, company, kind)
  const get = (company: TestCompany, path: string) => send(request(company.token, 'GET', path), { env: deployed })
  const test = async (company: TestCompany, kind: string) =>
    (await adminCallWith(deployed, 'POST', `/companies/${company.id}/integrations/${kind}/test`)).body

  /** What is called outside while `act` runs, without the simulators that stand for the resolver and hold the calls. */
  async function callsOf(act: () => Promise<void>): Promise<string[]> {
    const called: string[] = []
    const fetchBefore = globalThis.fetch
    globalThis.fetch = async (input, init) => {
      const url = String(input instanceof Request ? input.url : input)
      if (url.startsWith(inject('receiverUrl'))) return fetchBefore(input, init)
      called.push(url)
      return new Response(null, { status: 500 })
    }
    try {
      await act()
    } finally {
      globalThis.fetch = fetchBefore
    }
    return called
  }

  it('for suppliers', async () => {
    const shop = await mintShop()
    for (const kind of ['supplier_a', 'supplier_b']) await move(shop, kind)
    const called = await callsOf(async () => {
      const { status, body } = await get(shop, '/products/search?q=5000')
      expect([status, body.sources.supplier_a, body.sources.supplier_b]).toEqual([200, 'failed', 'failed'])
      expect((await get(shop, '/products/supplier_a?style=5000')).status).toBe(502)
      for (const kind of ['supplier_a', 'supplier_b']) {
        expect(await test(shop, kind)).toEqual({ ok: false, message: `the call failed: the address ${message}` })
      }
    })
    expect(called).toEqual([])
    expect([(await look(shop.a.url)).calls, (await look(shop.b.url)).calls]).toEqual([[], []])
  })

  it('for the storage', async () => {
    const company = await mintCompanyWithOrder()
    const bucket = await giveStorage(company)
    const before = (await look(scopeUrl(bucket))).calls.length
    await move(company, 'storage')
    const called = await callsOf(async () => {
      const { status, body } = await get(company, `/orders/${company.orderId}/files`)
      expect([status, body.error.message]).toEqual([502, `The company’s storage failed: the address ${message}`])
      expect((await test(company, 'storage')).ok).toBe(false)
    })
    expect(called).toEqual([])
    expect((await look(scopeUrl(bucket))).calls.length).toBe(before)
  })

  it.each(['api', 'tokens'])('for the %s of the accounting system', async (part) => {
    const shop = await Shop.open()
    if (part === 'tokens') {
      // The API may be called, its tokens may not.
      await shop.connect({}, true, { token_url: address ?? shop.world.tokenUrl })
      await moveTo(PUBLIC, shop.company, 'accounting_sync')
    } else await move(shop.company, 'accounting_sync')
    const order = await shop.makeOrder()
    const called = await callsOf(async () => {
      await runInDurableObject(shop.object, async (instance, state) => {
        Reflect.set(instance, 'env', deployed)
        state.storage.kv.put('company', shop.company.id)
        await instance.alarm()
        await state.storage.deleteAlarm()
        expect(await instance.check(shop.company.id)).toMatchObject({ ok: false })
        Reflect.set(instance, 'env', env)
      })
    })
    expect(called).toEqual([])
    expect(await shop.invoices()).toEqual([])
    const last_error = `The call to the accounting system failed: the address ${message}.`
    expect(await shop.open()).toMatchObject([{ order_id: order, last_error }])
  })
})
