import * as z from 'zod/mini'
import { component, defineContract } from '../../../kernel/api/contract.ts'

const count = z.int().check(z.nonnegative())

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

export const endpoints = [rotateKey]
