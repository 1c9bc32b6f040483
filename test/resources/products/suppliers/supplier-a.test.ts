import fc from 'fast-check'
import { expect, inject, it, onTestFinished, vi } from 'vitest'
import * as z from 'zod'
import {
  defaultNamespace,
  readEnvelope,
  supplierA,
  supplierAVariantSchema,
} from '../../../../src/resources/products/suppliers/supplier-a.ts'
import type { Fault } from '../../../../src/simulators/kit.ts'
import {
  CREDENTIALS,
  ENDPOINT_PATH,
  LARGE_STYLE,
  NAMESPACE,
  SINGLE_ROW_STYLE,
} from '../../../../src/simulators/supplier-a-catalogue.ts'
import { LOCAL } from '../../../support/addresses.ts'
import { BROKEN_WIRE, errorOf, REJECTED, SupplierScope, showAll, UNAVAILABLE } from './support.ts'

function connectTo(baseUrl: string, login: object, timeoutMs = 10_000) {
  const connection = { baseUrl, credentials: supplierA.credentials.parse(login), addresses: LOCAL, timeoutMs }
  return { fetchStyle: (style: string) => supplierA.find({ style }).lookup.fetch(connection) }
}

function connect({ timeoutMs, credentials }: { timeoutMs?: number; credentials?: Partial<typeof CREDENTIALS> } = {}) {
  const scope = new SupplierScope(inject('supplierAUrl'))
  const login = { ...CREDENTIALS, namespace: NAMESPACE, ...credentials }
  return { scope, supplier: connectTo(scope.url + ENDPOINT_PATH, login, timeoutMs) }
}

/** An envelope with what is given inside `return`, or in its place. */
function envelope(content: string, tag = 'return'): string {
  const wrapped = tag ? `<${tag}>${content}</${tag}>` : content
  return (
    '<?xml version="1.0"?><S:Envelope xmlns:S="http://schemas.xmlsoap.org/soap/envelope/"><S:Body>' +
    `<n:getProductInfoByStyleColorSizeResponse xmlns:n="urn:x">${wrapped}</n:getProductInfoByStyleColorSizeResponse>` +
    '</S:Body></S:Envelope>'
  )
}

function row(fields: string): string {
  return `<listResponse><productBasicInfo>${fields}</productBasicInfo></listResponse>`
}

const ONE_ROW = envelope(row('<style>K500</style>'))

it('supplier_a returns the 558 rows of the large style', async () => {
  const { supplier } = connect()
  const data = await supplier.fetchStyle(LARGE_STYLE)
  expect(data).toHaveLength(558)
  expect(z.array(supplierAVariantSchema).parse(data)).toEqual(data)
  expect(new Set(data.map((variant) => variant.color)).size).toBe(62)
  expect(new Set(data.map((variant) => variant.unique_key)).size).toBe(558)
})

it('supplier_a returns a single row as a list, every field normalised', async () => {
  const { supplier } = connect()
  const image = 'https://images.supplier-a.example/catalog/SOLO1/Athletic_Hthr'
  expect(await supplier.fetchStyle(SINGLE_ROW_STYLE)).toEqual([
    {
      ...{ style: 'SOLO1', title: 'Harbor & Pine® Canvas Sample Tote. SOLO1', brand: 'Harbor & Pine' },
      ...{ category: 'Bags', color: 'Athletic Heather', catalog_color: 'Athletic Hthr', size: 'OSFA', size_index: 1 },
      ...{ inventory_key: '2000', unique_key: '20001', status: 'Active', piece_weight: 0.3, case_size: 72 },
      ...{ piece_price: 6, dozen_price: 5.7, case_price: 5.4, map_price: null },
      ...{ piece_sale_price: null, dozen_sale_price: null, case_sale_price: null },
      ...{ sale_start_date: null, sale_end_date: null },
      ...{ product_image: `${image}/model_front_full.jpg`, swatch_image: `${image}/colour_swatch.jpg` },
      ...{ front_image: `${image}/model_front.jpg`, back_image: `${image}/model_back.jpg` },
    },
  ])
})

it.each([
  ['PC61', 60],
  ['pc61y ', 30],
  ['ST350', 90],
  ['ST-350', 3],
  ['5000', 80],
  ['TOTE', 4],
  ['ZZZ9', 0],
  ['PC6', 0],
  ['<a>&"\u0001', 0],
  ['\ufffe\uffff', 0],
  ['PC61\u0001', 0],
])('supplier_a returns only the variants of exactly %s: %i rows', async (style, count) => {
  const { supplier } = connect()
  const data = await supplier.fetchStyle(style)
  expect(data).toHaveLength(count)
  expect(data.every((variant) => variant.style === style.trim().toUpperCase())).toBe(true)
})

it('supplier_a sends the request that the service expects', async () => {
  const { scope, supplier } = connect()
  await supplier.fetchStyle('K500')
  const [call] = await scope.calls()
  expect(call?.method).toBe('POST')
  expect(call?.headers).toMatchObject({ 'content-type': 'text/xml; charset=utf-8', soapaction: '""' })
  expect(call?.body).toContain(`xmlns:impl="${NAMESPACE}"`)
  expect(call?.body).toContain('<arg0><style>K500</style></arg0><arg1><customerNumber>10001</customerNumber>')
})

it('supplier_a derives the namespace from the address where the integration has none', async () => {
  const scope = new SupplierScope(inject('supplierAUrl'))
  expect(await connectTo(scope.url + ENDPOINT_PATH, CREDENTIALS).fetchStyle('K500')).toHaveLength(81)
  const [call] = await scope.calls()
  expect(call?.body).toContain('xmlns:impl="http://impl.webservice.integration.127.0.0.1/"')
  expect(call?.body).toContain('<customerNumber>10001</customerNumber><userName>shop</userName><userPassword>')
})

it.each([
  ['https://ws.supplier.example:8443/x', 'http://impl.webservice.integration.supplier.example/'],
  ['https://supplier.example/x', 'http://impl.webservice.integration.supplier.example/'],
  ['http://localhost/x', 'http://impl.webservice.integration.localhost/'],
])('supplier_a derives the namespace from %s', (baseUrl, namespace) => {
  expect(defaultNamespace(baseUrl)).toBe(namespace)
})

const WRONG = [{ customer_number: '1' }, { username: 'nobody' }, { password: 'wrong-password' }]
it.each(WRONG)('supplier_a reports %j as rejected credentials, and never shows them', async (credentials) => {
  const error = await errorOf(connect({ credentials }).supplier.fetchStyle('K500'))
  expect(error).toMatchObject(REJECTED)
  expect(showAll(error)).not.toMatch(/nobody|wrong-password|p&ss|10001/)
})

it.each(BROKEN_WIRE)('supplier_a reports %s', async (_, fault, expected) => {
  const { scope, supplier } = connect()
  await scope.setFaults(fault)
  const error = await errorOf(supplier.fetchStyle('K500'))
  expect(error).toMatchObject({ name: 'SupplierError', ...expected })
  expect(showAll(error)).not.toMatch(/p&(amp;)?ss|10001|127\.0\.0\.1:\d+\/t/)
  expect(await scope.calls()).toHaveLength(1)
  expect(await supplier.fetchStyle('K500')).toHaveLength(81)
})

const flag = (message: string, name = 'errorOccured') =>
  envelope(`<${name}>true</${name}><message>${message}</message>`)
const bomb =
  '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>' +
  envelope(`<message>&b;</message>`).replace('<?xml version="1.0"?>', '')
const fault = (text: string) =>
  envelope('', '').replace(
    /<n:.*<\/n:[^>]*>/,
    `<S:Fault><faultcode>S:Server</faultcode><faultstring>${text}</faultstring></S:Fault>`,
  )

it.each([
  ['a login rejected in other words', 200, flag('ERROR: Authentication Failed for user p&amp;ss'), REJECTED],
  ['the flag in its other spelling', 200, flag('not authenticated', 'errorOccurred'), REJECTED],
  ['a rejected login without a flag', 200, envelope('<message>User not authenticated</message>'), REJECTED],
  ['an error of another kind', 200, flag('Database is down'), UNAVAILABLE],
  ['an error without a message', 200, envelope('<errorOccured>1</errorOccured>'), UNAVAILABLE],
  ['a message alone that is no known one', 200, envelope('<message>Try later</message>'), UNAVAILABLE],
  ['a fault with 500', 500, fault('Unmarshalling Error'), UNAVAILABLE],
  ['a fault with 200', 200, fault('no data found in request'), UNAVAILABLE],
  ['a fault about the login', 500, fault('Authentication required'), REJECTED],
  ['a fault that says nothing', 500, fault(''), UNAVAILABLE],
  ['a valid response with a wrong status', 500, ONE_ROW, UNAVAILABLE],
  ['a response without a return', 200, envelope('', 'other'), UNAVAILABLE],
  ['another document', 200, '<other><return/></other>', UNAVAILABLE],
  ['an entity bomb', 200, bomb, UNAVAILABLE],
  ['a harmless document type', 200, ONE_ROW.replace('?>', '?><!DOCTYPE x>'), UNAVAILABLE],
  ['20 MiB of a valid response', 200, ONE_ROW + ' '.repeat(20 * 1024 * 1024), UNAVAILABLE],
  ['an entity declaration in lower case', 200, '<!entity a "b"><a/>', UNAVAILABLE],
  ['an undeclared entity', 200, envelope('<message>&nbsp;</message>'), UNAVAILABLE],
  ['a body cut in the middle, its length right', 200, ONE_ROW.slice(0, -60), UNAVAILABLE],
  ['tags without end', 200, '<a>'.repeat(100_000), UNAVAILABLE],
  ['more rows than any style has', 200, envelope('<listResponse/>'.repeat(10_001)), UNAVAILABLE],
  ['rows without a style', 200, envelope(row('<color>Red</color>')), UNAVAILABLE],
])('supplier_a reports %s', async (_, status, body, expected) => {
  const { scope, supplier } = connect()
  await scope.setFaults({ status, body, headers: { 'content-type': 'text/xml' } })
  const error = await errorOf(supplier.fetchStyle('K500'))
  expect(error).toMatchObject({ name: 'SupplierError', ...expected })
  expect(showAll(error)).not.toMatch(/p&ss|10001/)
})

it.each([
  ['an unknown style', flag('Invalid Style K500')],
  ['nothing found', flag('Product NOT FOUND')],
  ['no data', flag('no data', 'errorOccurred')],
  ['an unknown style without a flag', envelope('<message>Invalid style</message>')],
  ['no rows and no error', envelope('<errorOccured>false</errorOccured><message>Success</message>')],
  ['nothing at all', envelope('')],
  ['only other styles', envelope(row('<style>K500P</style>'))],
])('supplier_a returns no items for %s', async (_, body) => {
  const { scope, supplier } = connect()
  await scope.setFaults({ body })
  expect(await supplier.fetchStyle('K500')).toEqual([])
})

it('supplier_a reads a row with little in it, references and CDATA', async () => {
  const { scope, supplier } = connect()
  const title = '<productTitle>A &amp; B &#x2122;&#174; <![CDATA[<b>]]> </productTitle>'
  await scope.setFaults({ body: envelope(row(`<style> k500 </style>${title}<size/>`) + row('<size>S</size>')) })
  const data = await supplier.fetchStyle('K500')
  expect(data).toHaveLength(1)
  expect(data[0]).toMatchObject({ style: 'K500', title: 'A & B ™® <b>', size: null, color: null, piece_price: null })
})

const latin1 = { encoding: 'latin1', replace: [['White', 'Café ½']] } as const
const declared = [['encoding="UTF-8"', 'encoding="ISO-8859-1"']] as const
it.each<[string, Fault]>([
  [
    'its XML declaration',
    { ...latin1, headers: { 'content-type': 'text/xml' }, replace: [...latin1.replace, ...declared] },
  ],
  ['its Content-Type', { ...latin1, headers: { 'content-type': 'text/xml;charset=ISO-8859-1' } }],
])('supplier_a reads a response in the charset of %s', async (_, fault) => {
  const { scope, supplier } = connect()
  await scope.setFaults(fault)
  const data = await supplier.fetchStyle(LARGE_STYLE)
  expect(data).toHaveLength(558)
  expect(data.map(({ color }) => color)).toContain('Café ½')
})

it('supplier_a reads up to 10,000 rows of a response', () => {
  const rowsOf = (count: number) => readEnvelope(envelope(row('').repeat(count))).rows
  expect(rowsOf(10_000)).toHaveLength(10_000)
  expect(() => rowsOf(10_001)).toThrow('too many rows')
})

it('supplier_a keeps nothing of a row but published fields, however many others it has', () => {
  const { rows } = readEnvelope(envelope(row('<style>K500</style><f1>x</f1><f2>x</f2><size>M</size>')))
  expect(rows).toEqual([{ style: 'K500', size: 'M' }])
})

it('supplier_a times out', async () => {
  const { scope, supplier } = connect({ timeoutMs: 150 })
  await scope.setFaults({ delayMs: 3000 })
  expect(await errorOf(supplier.fetchStyle('K500'))).toMatchObject({
    ...UNAVAILABLE,
    message: expect.stringMatching(/no response in time/),
  })
})

it('supplier_a reports an invalid address', async () => {
  const supplier = connectTo('not an address with secret-word', CREDENTIALS)
  const error = await errorOf(supplier.fetchStyle('K500'))
  expect(error).toMatchObject(UNAVAILABLE)
  expect(showAll(error)).not.toContain('secret-word')
})

it('supplier_a never crashes on a corrupted response', async () => {
  const whole = envelope(row('<style>K500</style><color>Red</color>'))
  const fetching = vi.spyOn(globalThis, 'fetch')
  onTestFinished(() => fetching.mockRestore())
  const fetchBody = (body: string) => {
    fetching.mockImplementation(async () => new Response(body))
    return connectTo('https://a.example/', CREDENTIALS).fetchStyle('K500')
  }
  const at = fc.nat(whole.length - 1)
  await fc.assert(
    fc.asyncProperty(at, at, fc.string({ maxLength: 5 }), async (from, to, put) => {
      const body = whole.slice(0, Math.min(from, to)) + put + whole.slice(Math.max(from, to) + 1)
      const outcome = await fetchBody(body).catch((error) => error)
      expect(Array.isArray(outcome) || outcome.name === 'SupplierError').toBe(true)
    }),
    { numRuns: 300 },
  )
})
