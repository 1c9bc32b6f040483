import type { Published } from '../../kernel/api/contract.ts'
import { describeApi } from './document.ts'
import { requestHeaders } from './headers.ts'
import type { Api } from './reference.ts'

const administrationApi: Api = {
  title: 'CRM administration API',
  server: '/admin/v1',
  tags: ['Session', 'Companies'],
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
  headers: { RequestId: requestHeaders.RequestId },
  errors: {
    unauthenticated: 'Nobody is signed in, or the token is expired, of another audience or not signed by its issuer.',
    forbidden: 'The caller’s role is too low, or a change was sent by a page of another origin.',
    not_found: 'The resource does not exist, or the caller may not see its company.',
    conflict: 'The state of the company does not allow this.',
    rate_limited: 'Too many requests. Retry after the seconds in `Retry-After`.',
    unavailable:
      'Too busy, or a service that is needed, such as the sign-in’s, does not respond. With `Retry-After` nothing was changed: retry after those seconds. Without it a part of the change may have been carried out.',
  },
  describeWebhooks: null,
}

const INTRODUCTION = `Administers the companies of a deployment: members, tokens, integrations, webhooks and events.

A person signs in through Cloudflare Access and has a role in each company: \`developer\` or \`owner\`; operators are named in
the configuration. The operator's commands send the secret of the deployment. Another company is \`404\`. A caller may send
600 requests a minute. A change that a browser sends must come from a page of this service (\`Origin\`). Errors have the shape
and the codes of the integration API.`

/** The OpenAPI document of the administration API. */
export const describeAdminApi = (published: readonly Published[]) =>
  describeApi(published, INTRODUCTION, administrationApi)
