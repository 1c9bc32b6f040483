import type { Published } from '../../kernel/api/contract.ts'
import { createdClient } from '../clients/documentation.ts'
import { endpoints } from './contract.ts'

export const published: Published = {
  tag: 'Many changes of clients, orders and thread contexts in one request.',
  endpoints,
  document: () => {
    const client = createdClient()
    return {
      runBatch: {
        summary: 'Change many clients, orders and thread contexts',
        description:
          'Carries out 1 to 100 operations in their order, each with the rules, the permission and the result of its own request: one that is wrong gets its error, the others go on. All are committed in one transaction, or in several where their texts have more than 40,000 characters together (of each text, the first 255 count) or the database refuses one of them (such as a taken `external_id`, or another version than its `if_match` names): `transaction` tells which were committed together. An operation may name what an earlier one returns, so that a new client and its order go together: `"client_id": { "$ref": "0.client.id" }`. It then runs in a later transaction than that one, after all operations that name nothing; where the other failed, it fails too. A batch counts as its number of operations against the rate limit, and is refused as a whole where less is left. After a lost response, send it again with the same `Idempotency-Key`: what was carried out is not carried out again, the rest is.',
        example: {
          body: {
            operations: [
              { method: 'POST', path: '/clients', body: { company_name: client.company_name } },
              { method: 'PATCH', path: '/clients/17', body: { phone: null }, if_match: '"7"' },
            ],
          },
          response: {
            results: [
              {
                status: 200,
                body: { client: { ...client, id: 62, first_name: null, email: null } },
                transaction: 1,
              },
              {
                status: 412,
                body: {
                  error: {
                    code: 'invalid_request',
                    message:
                      'The resource has another version than `If-Match` names (weak tags match none): read it again and repeat the change',
                    details: {
                      reason: 'version_mismatch',
                      documentation_url: 'https://crm.example/#updateClient',
                    },
                  },
                },
                transaction: null,
              },
            ],
            transactions: 1,
          },
        },
      },
    }
  },
}
