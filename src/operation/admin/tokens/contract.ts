import * as z from 'zod/mini'
import { component, type Documentation, dateTime, id, idText, instant, trimmed } from '../../../kernel/api/contract.ts'
import { PERMISSIONS } from '../../../kernel/gate/permissions.ts'
import { adminContracts, anyCompany, listOf } from '../fields.ts'

/** Limits a company's tokens; revoked and expired ones do not count. */
export const ACTIVE_TOKENS_MAX = 50

/** The old token stays valid at most this long after a rotation. */
const OVERLAP_MAX_SECONDS = 7 * 86_400
const OVERLAP_SECONDS = 86_400

const permissions = z.array(z.enum(PERMISSIONS)).check(z.minLength(1), z.maxLength(PERMISSIONS.length))
const expiresAt = z.nullable(instant)

const fields = {
  id,
  company_id: id,
  name: z.string(),
  permissions: z.array(z.enum(PERMISSIONS)),
  state: z.enum(['active', 'expired', 'revoked']),
  created_at: dateTime,
  created_by: z.nullable(z.string()).check(z.describe('The email of who made it; null for an operator.')),
  last_used_at: z.nullable(dateTime).check(z.describe('To the minute.')),
  expires_at: z.nullable(dateTime).check(z.describe('Null for a token that does not expire.')),
  revoked_at: z.nullable(dateTime),
}

const token = component('Token', 'An API token of a company, without its secret.', fields)
const newToken = component('NewToken', 'A new token, with its secret.', {
  ...fields,
  token: z.string().check(z.regex(/^[0-9a-f]{64}$/), z.describe('The secret: sent once, and stored as a hash only.')),
})
const ofState = { state: z.optional(fields.state).check(z.describe('Only those in this state.')) }

const define = adminContracts('Tokens', 'developer', { token_id: idText.check(z.describe('The token.')) })

export const listAllTokens = define('listAllTokens', 'GET /tokens', {
  role: 'operator',
  ...listOf(token, { ...ofState, ...anyCompany(idText) }),
})

export const listTokens = define('listTokens', 'GET /companies/{company_id}/tokens', listOf(token, ofState))

export const createToken = define('createToken', 'POST /companies/{company_id}/tokens', {
  body: component('TokenInput', 'A token to create.', {
    name: trimmed(255).check(z.describe('What the token is for.')),
    permissions: z.optional(permissions).check(z.describe('By default all.')),
    expires_at: z.optional(expiresAt).check(z.describe('In the future; null or absent: never.')),
  }),
  response: newToken,
  errors: ['conflict'],
})

export const rotateToken = define('rotateToken', 'POST /companies/{company_id}/tokens/{token_id}/rotate', {
  body: component('TokenRotation', 'How to replace a token.', {
    overlap_seconds: z
      ._default(z.int().check(z.minimum(0), z.maximum(OVERLAP_MAX_SECONDS)), OVERLAP_SECONDS)
      .check(z.meta({ default: OVERLAP_SECONDS }), z.describe('How long the present token stays valid.')),
    expires_at: z
      .optional(expiresAt)
      .check(z.describe('Of the new token; by default it is valid for as long as the present one was.')),
  }),
  response: newToken,
  errors: ['conflict'],
})

export const revokeToken = define('revokeToken', 'DELETE /companies/{company_id}/tokens/{token_id}', {
  response: token,
})

export const published = {
  tags: { Tokens: 'The API tokens of a company.' },
  document: (): Record<string, Documentation> => ({
    listAllTokens: {
      summary: 'List tokens of all companies',
      description: 'In ascending order of ids.',
    },
    listTokens: {
      summary: 'List tokens',
      description: 'Those of the company, in ascending order of ids, revoked and expired ones too.',
    },
    createToken: {
      summary: 'Create a token',
      description: `The secret is in this response only. A company has at most ${ACTIVE_TOKENS_MAX} active tokens, those that are neither revoked nor expired: 409 beyond.`,
      example: { body: { name: 'Website orders' } },
    },
    rotateToken: {
      summary: 'Replace a token',
      description:
        'Creates a token with the name and the permissions of the present one, which stays valid for `overlap_seconds`, so that a client can change over without an outage. With 0 it ends within 30 seconds everywhere. While both are valid they count as two active tokens: 409 where that is too many. A token that was already rotated is a 409 unless `expires_at` is given: if its response was lost, rotate the successor.',
      example: { params: { token_id: '7' }, body: { overlap_seconds: 86_400 } },
    },
    revokeToken: {
      summary: 'Revoke a token',
      description: 'Requests with it are refused everywhere within 30 seconds.',
      example: { params: { token_id: '7' } },
    },
  }),
}
