import { adminRoute } from '../endpoint.ts'
import { listOwnCompanies } from '../queries.ts'
import * as contract from './contract.ts'

export const routes = [
  adminRoute(contract.readSession, async (_input, context) => {
    const { actor, isOperator, memberships } = context.caller
    const companies = await listOwnCompanies(context)
    return {
      actor,
      operator: isOperator,
      companies: companies.map(({ id, name }) => ({
        id,
        name,
        role: isOperator ? ('operator' as const) : (memberships.get(id) ?? 'developer'),
      })),
    }
  }),
]
