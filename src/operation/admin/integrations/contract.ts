import * as z from 'zod/mini'
import { component, type Documentation, dateTime } from '../../../kernel/api/contract.ts'
import { adminContracts } from '../fields.ts'

/** A test compares these with the kinds of a seed file. */
export const KINDS = ['supplier_b', 'supplier_a', 'accounting_sync', 'storage'] as const

export type Kind = (typeof KINDS)[number]

const integration = component('Integration', 'A connection of a company to another system, without its credentials.', {
  kind: z.enum(KINDS),
  enabled: z.boolean(),
  base_url: z.string(),
  settings: z
    .record(z.string(), z.nullable(z.string()))
    .check(z.describe('What else is not secret, such as a bucket.')),
  state: z
    .enum(['connected', 'disabled', 'paused', 'reconnect_needed', 'credentials_unreadable'])
    .check(z.describe('`reconnect_needed`, of accounting only: it no longer accepts the credentials. Put new ones.')),
  reason: z.nullable(z.string()).check(z.describe('Why it is paused or must be connected again.')),
  paused_until: z.nullable(dateTime),
  updated_at: dateTime,
})

const kind = z.enum(KINDS).check(z.describe('The kind of integration.'))
const define = adminContracts('Integrations', 'owner', { kind })

export const listIntegrations = define('listIntegrations', 'GET /companies/{company_id}/integrations', {
  role: 'developer',
  response: z.strictObject({ data: z.array(integration) }),
})

export const putIntegration = define('putIntegration', 'PUT /companies/{company_id}/integrations/{kind}', {
  // The fields depend on the kind: the handler validates them like those of a seed file.
  body: z.looseObject({ credentials: z.optional(z.record(z.string(), z.string())) }).check(
    z.meta({
      id: 'IntegrationInput',
      description:
        'An integration as in a seed file: `enabled`, `credentials`, and `base_url` (of `storage`: `endpoint`, `bucket`, `region`, `addressing`). Credentials that are left out stay as they are, unless an address is of another host: 400.',
    }),
  ),
  response: integration,
  errors: ['conflict'],
})

export const testIntegration = define('testIntegration', 'POST /companies/{company_id}/integrations/{kind}/test', {
  response: component('ConnectionTest', 'What one call to the other system gave.', {
    ok: z.boolean(),
    message: z.string(),
  }),
})

export const published = {
  tags: { Integrations: 'Connections of a company to other systems.' },
  document: (): Record<string, Documentation> => ({
    listIntegrations: {
      summary: 'List integrations',
      description: 'Those of the company with their state, without credentials.',
    },
    putIntegration: {
      summary: 'Save an integration',
      description:
        'Creates or replaces it. What was stopped for lost consent or rejected credentials is tried again. A disabled one may have no credentials.',
      example: {
        params: { kind: 'supplier_b' },
        body: {
          enabled: true,
          base_url: 'https://api.supplier.example',
          credentials: { account_number: '12345', api_key: 'secret' },
        },
      },
    },
    testIntegration: {
      summary: 'Test the connection',
      description: 'Makes one call that changes nothing, with the stored credentials.',
      example: {
        params: { kind: 'supplier_b' },
        response: { ok: true, message: 'The supplier accepts the credentials.' },
      },
    },
  }),
}
