import { env } from 'cloudflare:workers'
import { and, eq, sql } from 'drizzle-orm'
import { describe, expect, it } from 'vitest'
import * as z from 'zod/mini'
import { createApp, routes } from '../../../src/app.ts'
import { contractsOf, type Documentation, id, idText, trimmed } from '../../../src/kernel/api/contract.ts'
import { route } from '../../../src/kernel/api/endpoint.ts'
import { orm } from '../../../src/kernel/db/client.ts'
import type { CompanyContext } from '../../../src/kernel/db/context.ts'
import { clients } from '../../../src/kernel/db/schema.ts'
import { notFound } from '../../../src/kernel/http/errors.ts'
import { describeApi } from '../../../src/site/reference/document.ts'
import { asObject } from '../../../src/site/reference/json.ts'
import { mintCompany, mintToken, request, send } from '../../support/app.ts'
import { nameOf } from '../../support/endpoints.ts'
import { measureHops } from '../../support/hops.ts'
import { meterBindings } from '../../support/meter.ts'
import { testTenancy } from '../../support/tenancy.ts'
import { defaultBudget } from '../db/budgets.ts'

/*
 * The README's first recipe: a contract, a query, a route and the documentation are all that an endpoint needs in `src`.
 * This one is made up; it gets its checks of permission and input, its description, tenancy and budgets without more.
 */
const badge = z.strictObject({ badge: z.strictObject({ id, company_name: z.string() }) })
const params = z.strictObject({ id: idText.check(z.describe('Id.')) })
const one = { params, response: badge, errors: ['not_found'] } as const
const define = contractsOf('Clients', 'clients')

const readBadge = define('readBadge', 'GET /badges/{id}', one)

const renameBadge = define('renameBadge', 'PATCH /badges/{id}', {
  ...one,
  body: z.strictObject({ company_name: trimmed(100) }).check(z.meta({ id: 'BadgeChanges' })),
})

const columns = { id: clients.id, company_name: clients.company_name }

function isBadge({ companyId }: CompanyContext, badgeId: number) {
  return and(eq(clients.company_id, companyId), eq(clients.id, badgeId), sql`${clients.deleted} = 0`)
}

const made = [
  route(readBadge, async ({ params }, context) => {
    const [[row]] = await context.db.read([orm.select(columns).from(clients).where(isBadge(context, params.id))])
    if (!row) throw notFound('Badge')
    return { badge: row }
  }),
  route(renameBadge, async ({ params, body }, context) => {
    const update = orm.update(clients).set(body).where(isBadge(context, params.id)).returning(columns)
    const [[row]] = await context.db.writeIdempotent([update])
    if (!row) throw notFound('Badge')
    return { badge: row }
  }),
]

const example = { params: { id: '1' }, response: { badge: { id: 1, company_name: 'Harbor' } } }
const documentation: Record<string, Documentation> = {
  readBadge: { summary: 'Read a badge', description: 'Reads a badge.', example },
  renameBadge: {
    ...{ summary: 'Rename a badge', description: 'Renames a badge.' },
    example: { ...example, body: { company_name: 'Harbor' } },
  },
}

const app = createApp([...routes, ...made], [])
const endpoints = [readBadge, renameBadge].map((contract) => [nameOf(contract), contract] as const)

const company = await mintCompany()
const clientId: number = (await company.call('POST', '/clients', { company_name: 'Harbor' })).body.client.id

describe.each(endpoints)('the new endpoint %s', (_, contract) => {
  const { method, permission, operationId, response } = contract
  const body = 'body' in contract ? { company_name: 'Quay' } : undefined
  const call = (token: string | null, path: string, sent: unknown = body, verb: string = method) =>
    send(request(token, verb, path, sent), { app })

  it('has a route that requires its permission and validates its input', async () => {
    const path = `/badges/${clientId}`
    const allowed = await mintToken(company.id, [String(permission)])
    const { status, body: sent, headers } = await call(allowed, path)
    expect(status).toBe(200)
    expect(response.safeParse(sent).success).toBe(true)
    expect(headers.has('ratelimit')).toBe(true)
    expect((await call(null, path)).status).toBe(401)
    expect((await call(await mintToken(company.id, ['files:read']), path)).status).toBe(403)
    expect((await call(allowed, '/badges/x')).status).toBe(404)
    expect((await call(allowed, `${path}?company_id=1`)).body.error.message).toContain('`company_id`')
    expect((await call(allowed, path, {}, 'PUT')).headers.get('allow')).toBe('GET, HEAD, PATCH')
    if (body) expect((await call(allowed, path, {})).body.error.message).toBe('`company_name` is required')
  })

  it('is described with its parameters, its example and all of its errors', () => {
    const published = { endpoints: [contract], tags: { [contract.tag]: 'Badges.' }, documentation }
    const paths = asObject(describeApi(published, '').paths)
    const operation = asObject(asObject(paths['/badges/{id}'])[method.toLowerCase()])
    expect(operation).toMatchObject({ operationId, summary: documentation[operationId]?.summary })
    expect(Object.keys(asObject(operation.responses))).toEqual(
      expect.arrayContaining(['200', '400', '401', '403', '404', '429', '500']),
    )
    expect(JSON.stringify(operation)).toContain('"Harbor"')
  })

  it('stays within the default budgets', async () => {
    const meter = meterBindings(env)
    const token = await mintToken(company.id)
    const sent = () => request(token, method, `/badges/${clientId}`, body)
    expect((await measureHops(sent(), env, app)).depth).toBe(2)
    meter.take()
    await send(sent(), { app, env: meter.env })
    const budget = defaultBudget(contract, { path: '' })
    for (const [kind, count] of Object.entries(meter.take())) {
      expect(count, kind).toBeLessThanOrEqual(budget[kind as keyof ReturnType<typeof meter.take>])
    }
  })

  describe('separates companies', () => {
    testTenancy(contract, { own: ({ client }) => ({ params: { id: String(client) }, ...(body && { body }) }) }, app)
  })
})
