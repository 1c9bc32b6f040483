import type { Documentation } from '../../../kernel/api/contract.ts'

export const documentation = {
  rotateKey: {
    summary: 'Encrypt stored credentials with the first key',
    description:
      'With `CREDENTIALS_KEY` set to `NEW,OLD`: encrypts up to 100 stored values anew. Repeat while `reencrypted` is not 0. The old key may be removed when `remaining` is 0; values that no key can decrypt remain until their credentials are saved again. 409 while the move of a company is not finished, and for a malformed `CREDENTIALS_KEY`.',
    example: { response: { reencrypted: 4, unreadable: 0, remaining: 0 } },
  },
} satisfies Record<string, Documentation>
