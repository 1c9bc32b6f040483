import { execFileSync, spawnSync } from 'node:child_process'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { loadPublished } from '../../src/site/reference/build.ts'
import { writeLlmsText, writePostman } from '../../src/site/reference/document.ts'
import { asObject, isObject, type Json, type JsonObject } from '../../src/site/reference/json.ts'
import committed from '../../src/site/reference/openapi.json' with { type: 'json' }
import { renderFields } from '../../src/site/reference/page/fields.ts'
import { type Html, highlight, html, renderMarkdown, splitSections } from '../../src/site/reference/page/html.ts'
import { renderPage } from '../../src/site/reference/page/page.ts'
import { addressOf, LANGUAGES, ORIGIN, sampleRequest } from '../../src/site/reference/page/samples.ts'
import { type Operation, readContracts } from '../../src/site/reference/reference.ts'

const reference = readContracts(await loadPublished('resources'), committed.info.description)
const { operations } = reference

/** What a reader sees of markup. */
const textOf = (markup: string) =>
  markup
    .replaceAll(/<[^>]*>/g, '')
    .replaceAll(
      /&(lt|gt|quot|#39|amp);/g,
      (_, name: string) => ({ lt: '<', gt: '>', quot: '"', '#39': "'" })[name] ?? '&',
    )

/** Without the space between elements. */
const compact = (markup: Html) => String(markup).trim().replaceAll(/>\s+</g, '><')

describe('markup', () => {
  it('escapes every value and shows any text unchanged', () => {
    expect(String(html`<p title="${`"'`}">${['<b>', 1, null, false, html`<i>`]}</p>`)).toBe(
      '<p title="&quot;&#39;">&lt;b&gt;1<i></p>',
    )
    const anyText = fc.oneof(fc.string(), fc.json())
    fc.assert(
      fc.property(anyText, (text) => {
        expect(textOf(String(highlight(text)))).toBe(text)
      }),
    )
  })

  it.each([
    ['One\nparagraph.\n\nAnother.', '<p>One\nparagraph.</p><p>Another.</p>'],
    ['- a `b`\n- **c**', '<ul><li>a <code>b</code></li><li><strong>c</strong></li></ul>'],
    ['1. a\n2. b', '<ol><li>a</li><li>b</li></ol>'],
    ['### Title\n\n[text](#id)', '<h3 id="title">Title</h3><p><a href="#id">text</a></p>'],
    ['<script>&', '<p>&lt;script&gt;&amp;</p>'],
  ])('renders the Markdown %j', (markdown, expected) => {
    expect(compact(renderMarkdown(markdown))).toBe(expected)
  })

  it('renders tables and blocks of code', () => {
    const table = compact(renderMarkdown('| A | B |\n|---|---|\n| `1` | two |'))
    expect(table).toContain('<th scope="col">A</th><th scope="col">B</th>')
    expect(table).toContain('<tr><td><code>1</code></td><td>two</td></tr>')
    const code = compact(renderMarkdown('Before\n\n```sh\ncurl a\n\ncurl b\n```\n\nAfter'))
    expect(code).toMatch(/^<p>Before<\/p><pre[^>]*><code>curl a\n\ncurl b<\/code><\/pre><p>After<\/p>$/)
  })

  it('splits a text into the sections of its second level', () => {
    expect(splitSections('Start\n\n## Rate limit\n\nText\n\n### Part\n\n## Next')).toEqual([
      { id: 'guide-', title: '', text: 'Start' },
      { id: 'guide-rate-limit', title: 'Rate limit', text: 'Text\n\n### Part' },
      { id: 'guide-next', title: 'Next', text: '' },
    ])
  })
})

describe('the fields of a schema', () => {
  it.each<[string, JsonObject, string]>([
    ['a range', { type: 'integer', minimum: 1, maximum: 100, default: 25 }, 'a integer1 to 100, default 25'],
    ['the range of an id', { type: 'integer', minimum: 1, maximum: Number.MAX_SAFE_INTEGER }, 'a integerat least 1'],
    [
      'a text that may be null',
      { type: ['string', 'null'], minLength: 1, maxLength: 9 },
      'a string or null1 to 9 characters',
    ],
    ['a format', { type: 'string', format: 'date-time' }, 'a date-time'],
    ['values', { type: 'string', enum: ['x', 'y', null], default: 'x' }, 'a stringone of x, y; default x'],
    ['a constant', { const: 'x', type: 'string' }, 'a stringalways x'],
    [
      'a list',
      { type: 'array', items: { $ref: '#/components/schemas/Client' }, maxItems: 1 },
      'a array of Clientat most 1 element',
    ],
    ['alternatives', { anyOf: [{ $ref: '#/components/schemas/Tax' }, { type: 'null' }] }, 'a Tax or null'],
    ['an object', { type: 'object', properties: { b: { type: 'boolean' } } }, 'a object1 fieldb boolean'],
  ])('show %s', (_name, schema, expected) => {
    expect(textOf(String(renderFields({ properties: { a: schema } })))).toBe(expected)
  })

  it('mark what is required and link to named schemas', () => {
    const fields = String(renderFields({ properties: { a: { $ref: '#/components/schemas/Client' } }, required: ['a'] }))
    expect(fields).toContain('<a href="#object-Client">Client</a>')
    expect(textOf(fields)).toBe('a Client required')
  })
})

describe('the examples of requests', () => {
  const operation = (body: Json | undefined): Operation => ({
    id: 'make',
    method: 'POST',
    path: '/things/{name}',
    tag: 'Things',
    summary: 'Make a thing',
    description: '',
    parameters: [
      { name: 'name', in: 'path', description: '', required: true, schema: {}, example: 'a b@c' },
      { name: 'q', in: 'query', description: '', required: false, schema: {}, example: "it's & 100%" },
      { name: 'unused', in: 'query', description: '', required: false, schema: {}, example: undefined },
    ],
    body: body === undefined ? undefined : { description: '', schema: {}, example: body },
    responses: [{ status: 200, description: '', headers: [], schema: {}, example: { thing: { id: 1 } } }],
  })
  const write = (language: string, body: Json | undefined) =>
    LANGUAGES.find(({ id }) => id === language)?.write(sampleRequest(operation(body))) ?? ''
  const url = `${ORIGIN}/api/v1/things/a%20b%40c?q=it's%20%26%20100%25`
  /** Bodies with everything that a quotation could break; a shell's arguments hold no U+0000. */
  const bodies = fc
    .object({ maxDepth: 2, withNullPrototype: false })
    .map((value) => JSON.stringify(value))
    // A literal with this key sets its prototype.
    .filter((text) => !text.includes('__proto__'))
    .map((text): Json => JSON.parse(text))

  it('send the documented body, whatever is in it, by curl', () => {
    const script = (sample: string) =>
      `curl() { for each in "$@"; do printf '%s\\0' "$each"; done; }\nAPI_TOKEN=secret\n${sample}`
    fc.assert(
      fc.property(bodies, (body) => {
        const output = execFileSync('sh', ['-c', script(write('curl', body))], { encoding: 'utf8' })
        const [x, method, address, h, authorization, h2, type, d, data = ''] = output.split('\0')
        expect([x, method, address, h, authorization, h2, type, d]).toEqual([
          ...['-X', 'POST', url, '-H', 'Authorization: Bearer secret', '-H', 'Content-Type: application/json', '-d'],
        ])
        expect(JSON.parse(data)).toEqual(body)
      }),
      { numRuns: 50 },
    )
  })

  it('send the documented body, whatever is in it, from TypeScript', async () => {
    await fc.assert(
      fc.asyncProperty(bodies, async (body) => {
        const calls: [string, RequestInit][] = []
        const fetch = (address: string, init: RequestInit) => {
          calls.push([address, init])
          return new Response('{"thing":{"id":1}}')
        }
        const run = new Function(
          'fetch',
          'process',
          `return (async () => { ${write('typescript', body)}\nreturn thing })()`,
        )
        expect(await run(fetch, { env: { API_TOKEN: 'secret' } })).toEqual({ id: 1 })
        expect(calls).toMatchObject([[url, { method: 'POST', headers: { Authorization: 'Bearer secret' } }]])
        expect(JSON.parse(String(calls[0]?.[1].body))).toEqual(body)
      }),
      { numRuns: 100 },
    )
  })

  const hasPython = spawnSync('python3', ['--version']).status === 0

  it.skipIf(!hasPython)('send the documented body, whatever is in it, from Python', () => {
    const samples = fc.sample(bodies, 50)
    const program = `
import json, os, sys, types
os.environ['API_TOKEN'] = 'secret'
calls = []
class Response:
    def raise_for_status(self): pass
    def json(self): return {'thing': {'id': 1}}
def post(url, **options):
    calls.append({'url': url, **options})
    return Response()
sys.modules['requests'] = types.SimpleNamespace(post=post)
for sample in json.load(sys.stdin):
    scope = {}
    exec(sample, scope)
    assert scope['thing'] == {'id': 1}
print(json.dumps(calls))
`
    const input = JSON.stringify(samples.map((body) => write('python', body)))
    const calls: Json = JSON.parse(execFileSync('python3', ['-c', program], { input, encoding: 'utf8' }))
    expect(calls).toEqual(
      samples.map((json) => ({
        url: `${ORIGIN}/api/v1/things/a%20b%40c`,
        headers: { Authorization: 'Bearer secret' },
        params: { q: "it's & 100%" },
        json,
      })),
    )
  })

  it('leave out what a request does not have', () => {
    const [curl, typescript, python] = LANGUAGES.map(({ id }) => write(id, undefined))
    expect(curl).not.toContain('-d')
    expect(typescript).not.toContain('body')
    expect(python).not.toContain('json=')
  })
})

describe('the page', () => {
  it('shows text of the description as text, never as markup', () => {
    const text = '<img src=x onerror=alert(1)> "\'&'
    const { api, tags, schemas } = reference
    const renamed = tags.map((tag) => ({
      ...tag,
      operations: tag.operations.map((operation) => ({ ...operation, summary: text })),
    }))
    const page = renderPage({
      ...reference,
      api: { ...api, title: text },
      tags: renamed,
      schemas: { ...schemas, Client: { ...schemas.Client, description: text } },
    })
    expect(page.includes('<img')).toBe(false)
    expect(page.match(/&lt;img src=x onerror=alert\(1\)&gt;/g)?.length).toBeGreaterThanOrEqual(5)
  })

  it('separates the headers of every operation from its own', () => {
    expect(Object.values(reference.api.headers).map(({ name }) => name)).toEqual(['X-Request-Id', 'X-Bookmark'])
    for (const { parameters } of operations) expect(parameters.map(({ name }) => name)).not.toContain('X-Bookmark')
  })
})

describe('the other forms of the description', () => {
  it('has every operation with its example request and response in the Postman collection', () => {
    const collection: Json = JSON.parse(writePostman(reference))
    const groups = list(asObject(collection).item)
    expect(groups.map(({ name }) => name)).toEqual(committed.tags.map(({ name }) => name))
    const items = groups.flatMap(({ item }) => list(item))
    expect(items.map(({ name }) => name).sort()).toEqual(operations.map(({ summary }) => summary).sort())
    for (const operation of operations) {
      const item = asObject(items.find(({ name }) => name === operation.summary))
      const { url, method, body } = asObject(item.request)
      const { raw, variable } = asObject(url)
      const filled = list(variable).reduce(
        (text, { key, value }) => text.replace(`:${key}`, encodeURIComponent(String(value))),
        String(raw).replace('{{baseUrl}}', `${ORIGIN}/api/v1`),
      )
      const sample = sampleRequest(operation)
      expect([method, decodeURIComponent(filled)]).toEqual([operation.method, decodeURIComponent(addressOf(sample))])
      expect(isObject(body) ? JSON.parse(String(body.raw)) : undefined).toEqual(sample.body)
      const [example] = list(item.response)
      expect(JSON.parse(String(example?.body))).toEqual(operation.responses[0]?.example)
    }
  })

  it('says in the Postman collection that its address is to be set', () => {
    const { info } = asObject(JSON.parse(writePostman(reference)))
    expect(asObject(info).description).toMatch(/^Set `baseUrl` to .+ and `token`/)
  })

  it('has every operation and guide in llms.txt, with its links', () => {
    const text = writeLlmsText(reference)
    expect(text).toMatch(/^# CRM integration API \d+\.\d+\.\d+\n\n> A JSON API/)
    for (const { id, method, path, summary } of operations) {
      expect(text).toContain(`- [${summary}](/#${id}): \`${method} ${path}\`\n`)
      expect(text).toContain(`\n## ${summary}\n\n\`${method} ${path}\`\n`)
    }
    for (const [heading] of committed.info.description.matchAll(/^## .+$/gm)) expect(text).toContain(`\n${heading}\n`)
  })
})

const list = (value: Json | undefined) => (Array.isArray(value) ? value.map(asObject) : [])
