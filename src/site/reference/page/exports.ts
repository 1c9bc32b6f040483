import { VERSION } from '../document.ts'
import { type Json, type JsonObject, toJson } from '../json.ts'
import type { Operation, Reference } from '../reference.ts'
import { type Guide, listGuides } from './guides.ts'
import { splitSections } from './markdown.ts'
import { LANGUAGES, sampleRequest } from './samples.ts'

/** A Postman collection (format 2.1.0) of the operations, with the variables `baseUrl` and `token`. */
export function writePostman({ api, introduction, tags }: Reference): string {
  return toJson({
    info: {
      name: api.title,
      version: VERSION,
      description: introduction,
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
