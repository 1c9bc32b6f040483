import { beforeAll, expect, it } from 'vitest'
import * as z from 'zod/mini'
import type { app as api } from '../../src/app.ts'
import type { Contract } from '../../src/kernel/api/contract.ts'
import { type ApiResponse, mintToken, request, send, sql } from './app.ts'
import { dump, type FilledCompany, fillCompany, giveIntegrations, type Ids, makeIds, rowsOf } from './two-companies.ts'

/** 200 and a list without elements. */
export const EMPTY = 'empty'

export interface Decided {
  /** A valid request for the company's own data. */
  own: (ids: Ids, company: FilledCompany) => Input
  /** The status for another company's id in a place whose schema accepts it, or those that are possible. */
  places?: Record<string, number | number[] | typeof EMPTY>
}

export interface Input {
  params?: Record<string, string>
  query?: Record<string, string>
  body?: Record<string, unknown>
}

/** Names under which a caller could try to name another company; no contract has them. */
const FOREIGN_NAMES = ['company_id', 'companyId', 'company', 'tenant_id']

/** Each endpoint has its own companies, so that the changes of one do not affect the next. */
let nextRange = 1

function shapeOf(schema: z.ZodMiniType | undefined): string[] {
  return schema instanceof z.ZodMiniObject ? Object.keys(schema.shape) : []
}

/** Every place of an endpoint for a value. */
export function placesOf({ params, query, body }: Contract): string[] {
  return [
    ...shapeOf(params).map((name) => `params.${name}`),
    ...shapeOf(query).map((name) => `query.${name}`),
    ...shapeOf(body).map((name) => `body.${name}`),
  ]
}

/** The request with a value in one place. */
function put(input: Input, place: string, value: string | number): Input {
  const [part = '', name = ''] = place.split('.')
  const before = part === 'params' ? input.params : part === 'query' ? input.query : input.body
  return { ...input, [part]: { ...before, [name]: part === 'body' ? value : String(value) } }
}

/** Whether the contract's schemas accept the request; a part without a schema accepts nothing. */
function isAccepted(contract: Contract, input: Input): boolean {
  return (['params', 'query', 'body'] as const).every((part) => {
    const value = input[part] ?? {}
    return contract[part]?.safeParse(value).success ?? Object.keys(value).length === 0
  })
}

function requestOf({ method, path }: Contract, token: string, input: Input, headers?: Record<string, string>): Request {
  const encoded = (_: string, name: string) => encodeURIComponent(input.params?.[name] ?? '')
  const query = input.query ? `?${new URLSearchParams(input.query)}` : ''
  return request(token, method, path.replaceAll(/\{(\w+)\}/g, encoded) + query, input.body, headers)
}

/** The response contains nothing of the other company. */
function expectNothingOf(other: FilledCompany, result: ApiResponse, what: string) {
  const text = JSON.stringify(result.body)
  expect(text, what).not.toContain(other.marker)
  expect(text, what).not.toContain(`orders/${other.id}/`)
}

/**
 * Tests an endpoint with the ids of another company in every place of its path, query and body. `test/tenancy` has
 * companies whose ids are equal.
 *
 * @param decided the status for each place; without it no status is expected, but nothing may leak or change
 * @param app of an endpoint that is not part of the API
 */
export function testTenancy(contract: Contract, decided: Decided, app?: typeof api): void {
  const { operationId } = contract
  // What it deletes it finds once.
  const isDeletion = contract.method === 'DELETE'
  const { own, places } = decided
  let a: FilledCompany
  let b: FilledCompany
  const dumpAll = () => dump([a.id, b.id])
  const sendOf = (...input: [token: string, input: Input, headers?: Record<string, string>]) =>
    send(requestOf(contract, ...input), app && { app })

  beforeAll(async () => {
    const from = 10_000 * nextRange++
    const idsFrom = (first: number, name: string) => makeIds((n) => first + 2 * n, `${name}-${from}`)
    a = await fillCompany('ALPHA', idsFrom(from, 'alpha'))
    b = await fillCompany('BETA', idsFrom(from + 1, 'beta'), 'DB_TWO')
    await giveIntegrations(b)
  })

  it.each(placesOf(contract))('returns nothing of another company for its ids in %s', async (place) => {
    const token = await mintToken(a.id)
    // A request with `body.email` gives it the other's.
    const client = 'UPDATE clients SET email = ?, email_key = ? WHERE company_id = ? AND id = ?'
    await sql(client, a.ids.email, a.ids.email.toUpperCase(), a.id, a.ids.client)
    const before = await dumpAll()
    let hasChanged = false
    for (const [kind, value] of Object.entries({ ...b.ids, company: b.id })) {
      const input = put(own(a.ids, a), place, value)
      const result = await sendOf(token, input)
      const what = `${operationId} with ${kind} ${value} in ${place}`
      const refused = place.startsWith('params.') && contract.invalidParams !== 'invalid_request' ? 404 : 400
      const expected = isAccepted(contract, input) ? places?.[place] : refused
      if (places) expect(expected, `${what} is valid, but has no expected status`).toBeDefined()
      if (expected !== undefined) expect(result.status, what).toBeOneOf(expected === EMPTY ? [200] : [expected].flat())
      else expect(result.status, what).toBeOneOf([200, 400, 404])
      if (expected === EMPTY) expect(result.body.data, what).toEqual([])
      expectNothingOf(b, result, what)
      hasChanged ||= result.status === 200 && contract.method !== 'GET'
    }
    const after = await dumpAll()
    expect(rowsOf(after, b.id)).toEqual(rowsOf(before, b.id))
    if (!hasChanged) expect(after).toEqual(before)
  })

  it('returns 200 to the company itself, whatever its headers say, and refuses every name of a company', async () => {
    const token = await mintToken(a.id)
    const before = rowsOf(await dumpAll(), b.id)
    for (const name of FOREIGN_NAMES) {
      const parts = [...(contract.body ? ['body'] : []), 'query']
      for (const part of isDeletion ? [] : parts) {
        const input = put(own(a.ids, a), `${part}.${name}`, b.id)
        const result = await sendOf(token, input)
        expect(result.status, `${name} in the ${part}`).toBe(isAccepted(contract, input) ? 200 : 400)
        expectNothingOf(b, result, `${name} in the ${part}`)
      }
    }
    if (!isDeletion) {
      const headers = { 'x-company-id': String(b.id), 'x-tenant': String(b.id) }
      const result = await sendOf(token, own(a.ids, a), headers)
      expect(result.status).toBe(200)
      expectNothingOf(b, result, 'a header')
    }
    expect(rowsOf(await dumpAll(), b.id)).toEqual(before)
  })
}
