import type { Documentation } from '../../../kernel/api/contract.ts'
import { PERMISSIONS } from '../../../kernel/gate/permissions.ts'
import { ACTIVE_TOKENS_MAX } from './contract.ts'

const token = {
  id: 7,
  company_id: 1,
  name: 'Website orders',
  permissions: [...PERMISSIONS],
  state: 'active',
  created_at: '2026-03-02T09:00:00.000Z',
  created_by: 'owner@ridgeline.example',
  last_used_at: null,
  expires_at: null,
  revoked_at: null,
}
const secret = '5b1f0e2c9d8a47635f4e3d2c1b0a99887766554433221100ffeeddccbbaa0099'
const params = { company_id: '1' }
const pagination = { per_page: 50, next_cursor: null, has_more: false }

export const documentation = {
  listAllTokens: {
    summary: 'List tokens of all companies',
    description: 'In ascending order of ids.',
    example: { response: { data: [token], pagination } },
  },
  listTokens: {
    summary: 'List tokens',
    description: 'Those of the company, in ascending order of ids, revoked and expired ones too.',
    example: { params, response: { data: [token], pagination } },
  },
  createToken: {
    summary: 'Create a token',
    description: `The secret is in this response only. A company has at most ${ACTIVE_TOKENS_MAX} active tokens, those that are neither revoked nor expired: 409 beyond.`,
    example: { params, body: { name: 'Website orders' }, response: { ...token, token: secret } },
  },
  rotateToken: {
    summary: 'Replace a token',
    description:
      'Creates a token with the name and the permissions of the present one, which stays valid for `overlap_seconds`, so that a client can change over without an outage. With 0 it ends within 30 seconds everywhere. While both are valid they count as two active tokens: 409 where that is too many.',
    example: {
      params: { ...params, token_id: '7' },
      body: { overlap_seconds: 86_400 },
      response: { ...token, id: 8, token: secret },
    },
  },
  revokeToken: {
    summary: 'Revoke a token',
    description: 'Requests with it are refused everywhere within 30 seconds.',
    example: {
      params: { ...params, token_id: '7' },
      response: { ...token, state: 'revoked', revoked_at: '2026-03-02T10:00:00.000Z' },
    },
  },
} satisfies Record<string, Documentation>
