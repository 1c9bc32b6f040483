import { describe, expect, inject, it } from 'vitest'
import { CREDENTIALS as A, ENDPOINT_PATH, NAMESPACE } from '../../../../src/simulators/supplier-a-catalogue.ts'
import { CREDENTIALS as B } from '../../../../src/simulators/supplier-b-catalogue.ts'
import { SupplierScope } from './support.ts'

const LOGIN =
  `<arg1><customerNumber>${A.customer_number}</customerNumber><userName>${A.username}</userName>` +
  `<userPassword>${A.password.replaceAll('&', '&amp;').replaceAll('<', '&lt;')}</userPassword></arg1>`

const styleOf = (fields: string) => `<arg0>${fields}</arg0>`

async function callA(content: string, headers: Record<string, string> = {}, namespace = NAMESPACE): Promise<string> {
  const operation = 'getProductInfoByStyleColorSize'
  const response = await fetch(new SupplierScope(inject('supplierAUrl')).url + ENDPOINT_PATH, {
    method: 'POST',
    headers: { 'content-type': 'text/xml', soapaction: '', ...headers },
    body:
      '<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body>' +
      `<i:${operation} xmlns:i="${namespace}">${content}</i:${operation}></s:Body></s:Envelope>`,
  })
  const body = await response.text()
  const rows = body.split('<listResponse>').length - 1
  const [, text] = /<(?:message|faultstring)>([^<]*)/.exec(body) ?? []
  return rows > 0 ? `${response.status} ${rows} rows` : `${response.status} ${text}`
}

async function callB(path: string, login = `${B.account_number}:${B.api_key}`): Promise<[number, unknown]> {
  const bytes = new TextEncoder().encode(login)
  const response = await fetch(new SupplierScope(inject('supplierBUrl')).url + path, {
    headers: { authorization: `Basic ${btoa(String.fromCharCode(...bytes))}` },
  })
  const body = await response.json<unknown>()
  return [response.status, Array.isArray(body) ? body.length : Object.keys(body ?? {}).join()]
}

describe('the supplier_a simulator', () => {
  it.each([
    ['a style with its prefix matches', styleOf('<style>PC61</style>'), '200 115 rows'],
    ['a colour by its catalogue name', styleOf('<color>Athletic Hthr</color><style>K500</style>'), '200 9 rows'],
    ['a size', styleOf('<color>Jet Black</color><size>S</size><style>K500</style>'), '200 1 rows'],
    ['two at once', styleOf('<style>TOTE</style>') + styleOf('<style>SOLO1</style>'), '200 5 rows'],
  ])('returns %s', async (_, content, expected) => {
    expect(await callA(content + LOGIN)).toBe(expected)
  })

  it.each([
    ['a colour by its name', styleOf('<color>Athletic Heather</color><style>K500</style>'), /^200 Invalid Style/],
    ['an unknown style', styleOf('<style>ZZZ</style>'), /^200 Invalid Style/],
    ['an empty optional field', styleOf('<color></color><style>K500</style>'), /^500 Unmarshalling/],
    ['fields out of order', styleOf('<style>K500</style><size>S</size>'), /^500 Unmarshalling/],
    ['no style', '', /^500 Unmarshalling/],
  ])('rejects %s', async (_, content, expected) => {
    expect(await callA(content + LOGIN)).toMatch(expected)
  })

  it('rejects requests outside its protocol', async () => {
    const content = styleOf('<style>K500</style>') + LOGIN
    expect(await callA(content, { 'content-type': 'application/json' })).toMatch(/^500 /)
    expect(await callA(content, { soapaction: 'other' })).toMatch(/^500 /)
    expect(await callA(content, {}, 'http://other.example/')).toMatch(/^500 /)
    expect(await callA(content.replace('10001', '10009'))).toMatch(/^200 .*authentication failed/)
    const other = content.replace(/(<userName>).*(<\/userName>)/, '$1a&amp;b$2')
    expect(await callA(other)).toMatch(/^200 .*authentication failed for a&amp;b/)
    expect(await callA(styleOf('<style>K500</style>'))).toMatch(/^500 /)
  })
})

describe('the supplier_b simulator', () => {
  it.each([
    ['/v2/styles', [200, 40]],
    ['/v2/styles?search=zzz', [404, 'errors']],
    ['/v2/products/?styleid=39,40', [200, 561]],
    ['/v2/products/?style=04000', [200, 1]],
    ['/v2/products/?styleid=x', [400, 'code,message,errors']],
    ['/v2/products/', [400, 'code,message,errors']],
    ['/v2/products/B00400002,B00390000', [200, 2]],
    ['/v2/products/B0', [404, 'errors']],
    ['/v1/styles', [404, 'message,messageDetail']],
    ['/v2/other', [404, 'message,messageDetail']],
  ] as const)('returns %s', async (path, expected) => {
    expect(await callB(path)).toEqual(expected)
  })

  it('rejects a wrong login', async () => {
    expect(await callB('/v2/styles', `${B.account_number}:wrong`)).toEqual([401, 'code,message'])
  })
})
