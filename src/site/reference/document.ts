import { rateLimited } from '../../kernel/gate/limits.ts'
import { ApiError, conflict, ERRORS, type ErrorKind } from '../../kernel/http/errors.ts'
import { adminErrorSchema, errorResponseName } from './errors.ts'
import { headerNameOf, requestHeaders, responseHeaders } from './headers.ts'
import { type Json, type JsonObject, toJson } from './json.ts'
import { type Guide, listGuides } from './page/guides.ts'
import { splitSections } from './page/html.ts'
import { LANGUAGES, sampleRequest } from './page/samples.ts'
import { type Api, type Operation, type Published, type Reference, type Response, readContracts } from './reference.ts'

export const VERSION = '1.1.0'

export function describeApi(...contracts: Parameters<typeof readContracts>) {
  return writeDocument(readContracts(...contracts))
}

export function writeDocument({ api, introduction, tags, operations, webhooks, schemas }: Reference) {
  const { title, server, security, headers } = api
  const paths: Record<string, JsonObject> = {}
  for (const operation of operations) {
    const { path, method } = operation
    paths[path] = { ...paths[path], [method.toLowerCase()]: writeOperation(operation, Object.keys(headers)) }
  }
  const all = operations.flatMap((operation) => operation.responses)
  const errors = (Object.keys(ERRORS) as ErrorKind[]).flatMap((kind) => all.find((each) => each.kind === kind) ?? [])
  const responses = Object.fromEntries(
    errors.map(({ kind, ...response }) => [kind && errorResponseName(kind), writeResponse(response)]),
  )
  const used = JSON.stringify([paths, responses])
  const isUsed = (header: string) => used.includes(`"#/components/headers/${header}"`)

  return {
    openapi: '3.1.0',
    info: {
      title,
      version: VERSION,
      description: introduction,
      contact: { name: 'The operator of this API' },
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: server, description: 'The server of this description.' }],
    security: Object.keys(security).map((name) => ({ [name]: [] })),
    tags: tags.map(({ name, description }) => ({ name, description })),
    paths,
    ...(webhooks && { webhooks }),
    components: {
      securitySchemes: security,
      schemas,
      parameters: headers,
      headers: Object.fromEntries(Object.entries(responseHeaders).filter(([name]) => isUsed(name))),
      responses,
    },
  }
}

/** @param headers the component names of the request headers of every operation */
function writeOperation(operation: Operation, headers: readonly string[]): JsonObject {
  const { id, tag, summary, description, parameters, body, responses } = operation
  const written = responses.map((response) => {
    const { status, kind } = response
    return [status, kind ? ref('responses', errorResponseName(kind)) : writeResponse(response)]
  })
  return {
    operationId: id,
    tags: [tag],
    summary,
    description,
    parameters: [...parameters, ...headers.map((name) => ref('parameters', name))],
    ...(body && {
      requestBody: { description: body.description, required: true, content: json(body.schema, body.example) },
    }),
    responses: Object.fromEntries(written),
  }
}

function writeResponse({ description, headers, schema, example, mediaType }: Response): JsonObject {
  return {
    description,
    headers: Object.fromEntries(headers.map((name) => [headerNameOf(name), ref('headers', name)])),
    ...(schema && { content: json(schema, example, mediaType) }),
  }
}

function json(schema: JsonObject, example: Json | undefined, mediaType = 'application/json'): JsonObject {
  return { [mediaType]: { schema, example } }
}

function ref(kind: string, name: string): JsonObject {
  return { $ref: `#/components/${kind}/${name}` }
}

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
  errorSchema: adminErrorSchema,
  errors: {
    invalid_request: 'Malformed JSON, a wrong value, a missing or unknown field: `details.issues` names every problem.',
    unauthenticated: 'Nobody is signed in, or the token is expired, of another audience or not signed by its issuer.',
    forbidden: 'The caller’s role is too low, or a change was sent by a page of another origin.',
    not_found: 'The resource does not exist, or the caller may not see its company.',
    conflict: 'The state of the company does not allow this: the message names the cause, and what to do.',
    too_large: 'The body is larger than `details.limit_bytes`.',
    rate_limited: 'Too many requests. Retry after the seconds in `Retry-After`.',
    unavailable:
      'Too busy, or a service that is needed, such as the sign-in’s, does not respond. With `Retry-After` nothing was changed: retry after those seconds. Without it a part may have been carried out: look before you repeat it. A PUT, a new company, a move, a restore, a recovery and a rotation of the key may have been carried out in part even with it; these are safe to repeat.',
  },
  examples: {
    unauthenticated: new ApiError('unauthenticated', {
      message: 'The sign-in is not valid for this service: sign in again',
    }),
    forbidden: new ApiError('forbidden', { message: 'This needs the role `owner`' }),
    conflict: conflict('The last owner cannot be removed: make another member an owner first'),
    rate_limited: rateLimited(60, 'Too many requests of this caller'),
  },
}

const INTRODUCTION = `Administers the companies of a deployment: members, tokens, integrations, webhooks and events.

A person signs in through Cloudflare Access and has a role in each company: \`developer\` or \`owner\`; operators are named in
the configuration. The operator's commands send the secret of the deployment. Another company is \`404\`. A caller may send
600 requests a minute. A change that a browser sends must come from a page of this service (\`Origin\`). Errors have the shape
and the codes of the integration API; a 409 names its cause in the message.`

export const describeAdminApi = (published: Published) => describeApi(published, INTRODUCTION, administrationApi)

/** A Postman collection (format 2.1.0) of the operations, with the variables `baseUrl` and `token`. */
export function writePostman({ api, introduction, tags }: Reference): string {
  return toJson({
    info: {
      name: api.title,
      version: VERSION,
      description: `Set \`baseUrl\` to the service’s own address, and \`token\`, before the first request.\n\n${introduction}`,
      schema: 'https://schema.getpostman.com/json/collection/v2.1.0/collection.json',
    },
    auth: { type: 'bearer', bearer: [{ key: 'token', value: '{{token}}', type: 'string' }] },
    variable: [
      { key: 'baseUrl', value: 'http://127.0.0.1:8787/api/v1' },
      { key: 'token', value: '' },
    ],
    item: tags.map(({ operations, ...tag }) => ({ ...tag, item: operations.map(toPostmanItem) })),
  })
}

function toPostmanItem({ summary, description, method, path, parameters, body, responses }: Operation): JsonObject {
  const segments = path.slice(1).replaceAll(/\{(\w+)\}/g, ':$1')
  const query = parameters.filter((each) => each.in === 'query')
  const sent = query.filter(({ example }) => example !== undefined)
  const search = sent.map(({ name, example }) => `${name}=${encodeURIComponent(String(example))}`).join('&')
  const value = (example: Json | undefined) => (example === undefined ? '' : String(example))
  const header = [{ key: 'Content-Type', value: 'application/json' }]
  const request = {
    method,
    description,
    header: body ? header : [],
    url: {
      raw: `{{baseUrl}}/${segments}${search && `?${search}`}`,
      host: ['{{baseUrl}}'],
      path: segments.split('/'),
      variable: parameters
        .filter((each) => each.in === 'path')
        .map(({ name, description, example }) => ({ key: name, value: value(example), description })),
      query: query.map(({ name, description, example, required }) => ({
        key: name,
        value: value(example),
        description,
        ...(example === undefined && !required && { disabled: true }),
      })),
    },
    ...(body && { body: { mode: 'raw', raw: writeJson(body.example), options: { raw: { language: 'json' } } } }),
  }
  const examples = responses.filter(({ status, example }) => status < 300 && example !== undefined)
  const response = examples.map(({ status, example }) => ({
    name: 'Example',
    originalRequest: request,
    status: 'OK',
    code: status,
    _postman_previewlanguage: 'json',
    header,
    body: writeJson(example),
  }))
  return { name: summary, request, response }
}

/** The whole reference as one Markdown text, in the form of llmstxt.org. */
export function writeLlmsText(reference: Reference, guides: readonly Guide[] = []): string {
  const { api, introduction, operations } = reference
  const [summary, ...sections] = splitSections(introduction)
  const links = operations.map(({ id, method, path, summary }) => `- [${summary}](/#${id}): \`${method} ${path}\``)
  const parts = [
    `# ${api.title} ${VERSION}`,
    `> ${summary?.text}`,
    '## Documents',
    '- [OpenAPI 3.1](/api/v1/openapi.json): the schemas of every request and response\n' +
      '- [Postman collection](/postman_collection.json): every operation with its example\n' +
      '- [Reference](/): this text as a page, with requests to try',
    ...(guides.length > 0 ? ['## Guides', listGuides(guides)] : []),
    '## Operations',
    links.join('\n'),
    ...sections.map(({ title, text }) => `## ${title}\n\n${text}`),
    ...operations.flatMap(describeOperation),
  ]
  return `${parts.filter((part) => part !== '').join('\n\n')}\n`
}

function describeOperation(operation: Operation): string[] {
  const { summary, method, path, description, parameters, responses } = operation
  const [curl] = LANGUAGES
  const listed = parameters.map(({ name, in: place, required, description }) => {
    return `- \`${name}\` (${place}${required ? ', required' : ''}): ${description}`
  })
  const example = responses.find(({ status }) => status < 300)?.example
  return [
    `## ${summary}`,
    `\`${method} ${path}\``,
    description,
    listed.join('\n'),
    `\`\`\`sh\n${curl?.write(sampleRequest(operation))}\n\`\`\``,
    example === undefined ? '' : `\`\`\`json\n${writeJson(example)}\n\`\`\``,
  ]
}

function writeJson(value: Json | undefined): string {
  return JSON.stringify(value ?? null, null, 2)
}
