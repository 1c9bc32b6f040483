import type { RequestContext } from '../../kernel/api/context.ts'
import type { Input } from '../../kernel/api/contract.ts'
import { operation } from '../../kernel/api/endpoint.ts'
import { invalid } from '../../kernel/http/errors.ts'
import type { NewThreadContext } from './context-input.ts'
import { replacementOf } from './context-queries.ts'
import * as contract from './contract.ts'
import { contextText } from './responses.ts'

/** The changes of mail for batches. */
export const operations = [
  // A context has no version.
  operation(contract.putThreadContext, contextReplacementOf, (row) => ({
    body: JSON.parse(contextText(row)),
    version: 0,
  })),
]

/** The write of a thread context. @throws ApiError 400 naming each element of another company */
export function contextReplacementOf(
  { params, body }: Input<typeof contract.putThreadContext>,
  context: RequestContext,
) {
  refuseOtherCompanies(context.companyId, body)
  return replacementOf(context, params.legacyThreadId, body)
}

/** A read would omit such an element. */
function refuseOtherCompanies(companyId: number, body: NewThreadContext): void {
  const elements = [
    { path: 'client_data', element: body.client_data },
    ...(body.clients_data ?? []).map((element, index) => ({ path: `clients_data.${index}`, element })),
    ...(body.orders_data ?? []).map((element, index) => ({ path: `orders_data.${index}`, element })),
  ]
  const accepted = ['null', `${companyId}`, `"${companyId}"`]
  const issues = elements.flatMap(({ path, element }) =>
    ['company_id', 'companyId']
      .filter((name) => !accepted.includes(JSON.stringify(element?.[name] ?? null)))
      .map((name) => ({ path: `${path}.${name}`, message: 'must be the token’s company, or left out' })),
  )
  if (issues.length > 0) throw invalid(issues)
}
