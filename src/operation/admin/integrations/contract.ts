import * as z from 'zod/mini'
import { component, dateTime, defineContract, idText } from '../../../kernel/api/contract.ts'
import { integrationsFile } from '../../copies/seed/integrations-file.ts'

const KINDS = Object.keys(integrationsFile.shape) as [Kind, ...Kind[]]

export type Kind = keyof typeof integrationsFile.shape

const company_id = idText.check(z.describe('The company.'))
const params = z.strictObject({ company_id, kind: z.enum(KINDS).check(z.describe('The kind of integration.')) })

const integration = component('Integration', 'A connection of a company to another system, without its credentials.', {
  kind: z.enum(KINDS),
  enabled: z.boolean(),
  base_url: z.string(),
  settings: z
    .record(z.string(), z.nullable(z.string()))
    .check(z.describe('What else is not secret, such as a bucket.')),
  state: z
    .enum(['connected', 'disabled', 'paused', 'reconnect_needed', 'credentials_unreadable'])
    .check(z.describe('`reconnect_needed`: the other system no longer accepts the credentials. Put new ones.')),
  reason: z.nullable(z.string()).check(z.describe('Why it is paused or must be connected anew.')),
  paused_until: z.nullable(dateTime),
  updated_at: dateTime,
})

const common = { tag: 'Integrations', permission: null, role: 'owner', errors: [] } as const

export const listIntegrations = defineContract({
  ...common,
  method: 'GET',
  path: '/companies/{company_id}/integrations',
  operationId: 'listIntegrations',
  role: 'developer',
  params: z.strictObject({ company_id }),
  response: z.strictObject({ data: z.array(integration) }),
})

export const putIntegration = defineContract({
  ...common,
  method: 'PUT',
  path: '/companies/{company_id}/integrations/{kind}',
  operationId: 'putIntegration',
  params,
  // The fields depend on the kind: the handler validates them like those of a seed file.
  body: z.looseObject({ credentials: z.optional(z.record(z.string(), z.string())) }).check(
    z.meta({
      id: 'IntegrationInput',
      description:
        'An integration as in a seed file: `enabled`, `credentials`, and `base_url` (of `storage`: `endpoint`, `bucket`, `region`, `addressing`). Credentials that are left out stay as they are.',
    }),
  ),
  response: integration,
  errors: ['conflict'],
})

export const testIntegration = defineContract({
  ...common,
  method: 'POST',
  path: '/companies/{company_id}/integrations/{kind}/test',
  operationId: 'testIntegration',
  params,
  response: component('ConnectionTest', 'What one call to the other system gave.', {
    ok: z.boolean(),
    message: z.string(),
  }),
})

export const endpoints = [listIntegrations, putIntegration, testIntegration]
