import type { Json, JsonObject } from '../json.ts'
import { type Guide, listGuides } from './guides.ts'
import { splitSections } from './markdown.ts'
import { listOperations, type Operation, readInfo } from './operations.ts'
import { listTags } from './page.ts'
import { LANGUAGES, sampleRequest } from './samples.ts'

/** A Postman collection (format 2.1.0) of the operations, with the variables `baseUrl` and `token`. */
export function writePostman(document: JsonObject): string {
  const { title, version, description } = readInfo(document)
  const operations = listOperations(document)
  const collection = {
    info: {
      name: title,
      version,
      description,
      schema: 'https://schema.getpostman.com/json/collection/v2.1.0/collection.json',
    },
    auth: { type: 'bearer', bearer: [{ key: 'token', value: '{{token}}', type: 'string' }] },
    variable: [
      { key: 'baseUrl', value: 'http://127.0.0.1:8787/api/v1' },
      { key: 'token', value: '' },
    ],
    item: listTags(document).map(({ name, description }) => ({
      name,
      description,
      item: operations.filter(({ tag }) => tag === name).map(toPostmanItem),
    })),
  }
  return `${JSON.stringify(collection, null, 2)}\n`
}

function toPostmanItem({ summary, description, method, path, parameters, body, responses }: Operation): JsonObject {
  const segments = path.slice(1).replaceAll(/\{(\w+)\}/g, ':$1')
  const query = parameters.filter(({ place }) => place === 'query')
  const sent = query.filter(({ example }) => example !== undefined)
  const search = sent.map(({ name, example }) => `${name}=${encodeURIComponent(String(example))}`).join('&')
  const value = (example: Json | undefined) => (example === undefined ? '' : String(example))
  const request = {
    method,
    description,
    header: body ? [{ key: 'Content-Type', value: 'application/json' }] : [],
    url: {
      raw: `{{baseUrl}}/${segments}${search && `?${search}`}`,
      host: ['{{baseUrl}}'],
      path: segments.split('/'),
      variable: parameters
        .filter(({ place }) => place === 'path')
        .map(({ name, description, example }) => ({ key: name, value: value(example), description })),
      query: query.map(({ name, description, example, required }) => ({
        key: name,
        value: value(example),
        description,
        ...(example === undefined && !required && { disabled: true }),
      })),
    },
    ...(body && {
      body: { mode: 'raw', raw: writeJson(body.example), options: { raw: { language: 'json' } } },
    }),
  }
  const examples = responses.filter(({ status, example }) => status < 300 && example !== undefined)
  const response = examples.map(({ status, example }) => ({
    name: 'Example',
    originalRequest: request,
    status: 'OK',
    code: status,
    _postman_previewlanguage: 'json',
    header: [{ key: 'Content-Type', value: 'application/json' }],
    body: writeJson(example),
  }))
  return { name: summary, request, response }
}

/** The whole reference as one Markdown text, in the form of llmstxt.org. */
export function writeLlmsText(document: JsonObject, guidePages: readonly Guide[] = []): string {
  const { title, version, description } = readInfo(document)
  const [summary, ...guides] = splitSections(description)
  const operations = listOperations(document)
  const links = operations.map(({ id, method, path, summary }) => `- [${summary}](/#${id}): \`${method} ${path}\``)
  return [
    `# ${title} ${version}`,
    `> ${summary?.text}`,
    '## Documents',
    [
      '- [OpenAPI 3.1](/api/v1/openapi.json): the schemas of every request and response',
      '- [Postman collection](/postman_collection.json): every operation with its example',
      '- [Reference](/): this text as a page, with requests to try',
    ].join('\n'),
    ...(guidePages.length > 0 ? ['## Guides', listGuides(guidePages)] : []),
    '## Operations',
    links.join('\n'),
    ...guides.map(({ title, text }) => `## ${title}\n\n${text}`),
    ...operations.map(writeOperation),
  ]
    .join('\n\n')
    .concat('\n')
}

function writeOperation(operation: Operation): string {
  const { summary, method, path, description, parameters, responses } = operation
  const [curl] = LANGUAGES
  const success = responses.find(({ status }) => status < 300)
  return [
    `## ${summary}`,
    `\`${method} ${path}\``,
    description,
    parameters
      .map(
        ({ name, place, required, description }) =>
          `- \`${name}\` (${place}${required ? ', required' : ''}): ${description}`,
      )
      .join('\n'),
    `\`\`\`sh\n${curl?.write(sampleRequest(operation))}\n\`\`\``,
    success?.example === undefined ? '' : `\`\`\`json\n${writeJson(success.example)}\n\`\`\``,
  ]
    .filter((part) => part !== '')
    .join('\n\n')
}

function writeJson(value: Json | undefined): string {
  return JSON.stringify(value ?? null, null, 2)
}
