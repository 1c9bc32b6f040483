import * as z from 'zod/mini'
import { component, defineContract, type Published } from '../../../kernel/api/contract.ts'
import { count } from '../fields.ts'

export const rotateKey = defineContract({
  method: 'POST',
  path: '/key-rotation',
  operationId: 'rotateKey',
  tag: 'Keys',
  permission: null,
  role: 'operator',
  response: component('KeyRotation', 'How far the rotation has come.', {
    reencrypted: count.check(z.describe('Values that this request encrypted with the first key.')),
    unreadable: count.check(
      z.describe('Values that no key can decrypt, of this request: save those credentials again.'),
    ),
    remaining: count.check(z.describe('Values that are not encrypted with the first key, after this request.')),
  }),
  errors: ['conflict'],
})

export const published: Published = {
  tag: 'The rotation of the key of stored credentials.',
  endpoints: [rotateKey],
  document: () => ({
    rotateKey: {
      summary: 'Encrypt stored credentials with the first key',
      description:
        'With `CREDENTIALS_KEY` set to `NEW,OLD`: encrypts up to 100 stored values anew. Repeat while `reencrypted` is not 0. The old key may be removed when `remaining` is 0; values that no key can decrypt remain until their credentials are saved again. 409 while the move of a company is not finished, and for a malformed `CREDENTIALS_KEY`.',
      example: { response: { reencrypted: 4, unreadable: 0, remaining: 0 } },
    },
  }),
}
