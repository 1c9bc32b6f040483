import type { Documentation } from '../../kernel/api/contract.ts'
import { documentation as accounting } from '../../operation/admin/accounting/documentation.ts'
import { documentation as audit } from '../../operation/admin/audit/documentation.ts'
import { documentation as companies } from '../../operation/admin/companies/documentation.ts'
import { adminContracts } from '../../operation/admin/contracts.ts'
import { documentation as databases } from '../../operation/admin/databases/documentation.ts'
import { documentation as exports } from '../../operation/admin/exports/documentation.ts'
import { documentation as imports } from '../../operation/admin/imports/documentation.ts'
import { documentation as integrations } from '../../operation/admin/integrations/documentation.ts'
import { documentation as keys } from '../../operation/admin/keys/documentation.ts'
import { documentation as members } from '../../operation/admin/members/documentation.ts'
import { documentation as recovery } from '../../operation/admin/recovery/documentation.ts'
import { documentation as session } from '../../operation/admin/session/documentation.ts'
import { documentation as tokens } from '../../operation/admin/tokens/documentation.ts'
import { documentation as webhooks } from '../../operation/admin/webhooks/documentation.ts'
import { type Described, describeApi, documentationFrom } from './document.ts'
import { requestHeaders } from './headers.ts'

const all: Record<string, Documentation> = {
  ...session,
  ...companies,
  ...databases,
  ...tokens,
  ...members,
  ...integrations,
  ...accounting,
  ...webhooks,
  ...audit,
  ...keys,
  ...imports,
  ...exports,
  ...recovery,
}

export const adminDocumentationOf = documentationFrom(all)

const administrationApi: Described = {
  title: 'CRM administration API',
  server: '/admin/v1',
  tags: {
    Session: 'Who is signed in.',
    Companies: 'The companies of the deployment, and what they use.',
    Databases: 'Where the data of companies is.',
    Tokens: 'The API tokens of a company.',
    Members: 'The people who administer a company.',
    Integrations: 'Connections of a company to other systems.',
    Accounting: 'Changes that are not delivered to the accounting system yet.',
    Webhooks:
      'The addresses to which the changes of a company are delivered, signed by the Standard Webhooks convention.',
    Audit: 'Who changed what.',
    Keys: 'The rotation of the key of stored credentials.',
    Imports: 'Seed files: the data of one company.',
    Exports: 'The data of one company as lines.',
    Recovery: 'Backups, and what follows a loss of data.',
  },
  describe: adminDocumentationOf,
  security: {
    access: {
      type: 'apiKey',
      in: 'header',
      name: 'Cf-Access-Jwt-Assertion',
      description: 'A person: the token that Cloudflare Access adds to each request of somebody who is signed in.',
    },
    secret: {
      type: 'http',
      scheme: 'bearer',
      bearerFormat: '64 hexadecimal characters',
      description: 'The operator’s commands: the `ADMIN_TOKEN` of the deployment.',
    },
  },
  parameters: { RequestId: requestHeaders.RequestId ?? {} },
  errors: {
    unauthenticated: 'Nobody is signed in, or the token is expired, of another audience or not signed by its issuer.',
    forbidden: 'The caller’s role is too low, or a change was sent by a page of another origin.',
    not_found: 'The resource does not exist, or the caller may not see its company.',
    conflict: 'The state of the company does not allow this.',
    rate_limited: 'Too many requests. Retry after the seconds in `Retry-After`.',
    unavailable:
      'Too busy, or a service that is needed, such as the sign-in’s, does not respond. With `Retry-After` nothing was changed: retry after those seconds. Without it a part of the change may have been carried out.',
  },
  webhooks: null,
}

const INTRODUCTION = `Administers the companies of a deployment: members, tokens, integrations, webhooks and events.

A person signs in through Cloudflare Access and has a role in each company: \`developer\` or \`owner\`; operators are named in
the configuration. The operator's commands send the secret of the deployment. Another company is \`404\`. A caller may send
600 requests a minute. A change that a browser sends must come from a page of this service (\`Origin\`). Errors have the shape
and the codes of the integration API.`

/** The OpenAPI document of the administration API, as JSON. */
export function generateAdminDocument(): string {
  return `${JSON.stringify(describeApi(adminContracts, INTRODUCTION, administrationApi), null, 2)}\n`
}
