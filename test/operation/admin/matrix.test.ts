import { describe, expect, it } from 'vitest'
import { type Contract, ROLES } from '../../../src/kernel/api/contract.ts'
import { adminRoutes } from '../../../src/operation/admin/routes.ts'
import examples from '../../../src/site/reference/examples.json'
import { addMember, adminCall, adminRequest, adminSend, startAccess } from '../../support/admin.ts'
import { mintCompany } from '../../support/app.ts'
import { adminContracts, documentationOf, exampleOf, nameOf } from '../../support/endpoints.ts'

// What holds for every endpoint of the administration API: a new contract is taken in by itself.
const all = adminContracts.map((contract): [string, Contract] => [nameOf(contract), contract])
const ofCompany = all.filter(([, { path }]) => path.startsWith('/companies/{company_id}'))

const recorded: Record<string, unknown> = examples

const access = await startAccess()
const company = await mintCompany()
const other = await mintCompany()
await addMember(other.id, 'stranger@example.com', 'owner')
await addMember(company.id, 'developer@example.com', 'developer')
await addMember(company.id, 'owner@example.com', 'owner')

/** The documented example, of the company of this file. */
const example = (contract: Contract) => exampleOf(contract, { company_id: String(company.id) })

describe.each(all)('%s', (_, contract) => {
  it('has an example that fits its contract', () => {
    const { params, query, body, response = recorded[contract.operationId] } = documentationOf(contract).example
    const asText = Object.fromEntries(Object.entries(query ?? {}).map(([name, value]) => [name, String(value)]))
    if (contract.params) expect(contract.params.safeParse(params).error?.issues ?? []).toEqual([])
    if (contract.query) expect(contract.query.safeParse(asText).error?.issues ?? []).toEqual([])
    if (contract.body) expect(contract.body.safeParse(body).error?.issues ?? []).toEqual([])
    expect(contract.response.safeParse(response).error?.issues ?? []).toEqual([])
  })

  it('refuses who is not signed in, and an API token', async () => {
    const { path, body } = example(contract)
    expect((await adminSend(adminRequest(contract.method, path, body))).status).toBe(401)
    const headers = { authorization: `Bearer ${company.token}` }
    expect((await adminSend(adminRequest(contract.method, path, body, headers))).status).toBe(401)
  })

  it('refuses every role that is too low', async () => {
    const { path, body } = example(contract)
    const needed = ROLES.indexOf(contract.role ?? 'operator')
    for (const role of ['developer', 'owner'] as const) {
      if (ROLES.indexOf(role) >= needed) continue
      expect((await access.callAs(`${role}@example.com`, contract.method, path, body)).status).toBe(403)
    }
  })

  it('refuses an unknown parameter', async () => {
    const { path, body } = example(contract)
    const { status } = await adminCall(contract.method, `${path}${path.includes('?') ? '&' : '?'}unknown=1`, body)
    expect([400, 404]).toContain(status)
  })
})

describe.each(ofCompany)('%s', (_, contract) => {
  it('does not exist for a member of another company', async () => {
    const { path, body } = example(contract)
    expect((await access.callAs('stranger@example.com', contract.method, path, body)).status).toBe(404)
  })
})

/** What a developer of a company may not do. A contract without a role needs an operator. */
const DECIDED = {
  operator: [
    ...['createCompany', 'listCompanies', 'moveCompany', 'updateCompany', 'listDatabases', 'rotateKey'],
    ...['createImport', 'importEmailThread', 'readImport', 'listBackups', 'recoverDeployment', 'restoreCompany'],
    ...['listAllEvents', 'listAllTokens', 'listAllWebhooks'],
  ],
  owner: [
    ...['deleteMember', 'listMembers', 'putMember', 'exportCompany', 'putCurrency'],
    ...['putIntegration', 'testIntegration'],
  ],
}

it.each(Object.entries(DECIDED))('the role %s is needed where that was decided, and nowhere else', (role, names) => {
  const found = adminContracts.filter((contract) => (contract.role ?? 'operator') === role)
  expect(found.map(({ operationId }) => operationId).sort()).toEqual(names.sort())
})

it('every contract has one route', () => {
  expect(adminRoutes.map(({ contract }) => nameOf(contract)).sort()).toEqual(adminContracts.map(nameOf).sort())
})
