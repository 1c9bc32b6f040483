import * as z from 'zod/mini'
import { component, type Published } from '../../../kernel/api/contract.ts'
import { adminContracts, count } from '../fields.ts'

const define = adminContracts('Keys', 'operator')

export const rotateKey = define('rotateKey', 'POST /key-rotation', {
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
