import { operation } from '../../kernel/api/endpoint.ts'
import { refuseOtherCompanies } from './context-input.ts'
import { replacementOf } from './context-queries.ts'
import * as contract from './contract.ts'
import { contextText } from './responses.ts'

/** The changes of thread contexts for batches. */
export const operations = [
  operation(
    contract.putThreadContext,
    ({ params, body }, context) => {
      refuseOtherCompanies(context.companyId, body)
      return replacementOf(context, params.legacyThreadId, body)
    },
    // A context has no version.
    (row) => ({ body: JSON.parse(contextText(row)), version: 0 }),
  ),
]
