import { operation } from '../../kernel/api/endpoint.ts'
import { replacementOf } from './context-queries.ts'
import * as contract from './contract.ts'
import { contextText } from './responses.ts'

/** The changes of mail, for routes of their own and for batches. A context has no version. */
export const operations = [
  operation(
    contract.putThreadContext,
    ({ params, body }, context) => replacementOf(context, params.legacyThreadId, body),
    (row) => ({ body: JSON.parse(contextText(row)), version: 0 }),
  ),
]
