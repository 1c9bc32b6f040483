import { isObject, type Json } from '../json.ts'
import type { Operation } from './operations.ts'

/** A placeholder for the server's origin, which the page replaces by its own. */
export const ORIGIN = 'https://api.example.com'
const BASE = `${ORIGIN}/api/v1`

export interface Language {
  id: string
  label: string
  write: (request: SampleRequest) => string
}

interface SampleRequest {
  method: string
  /** The URL without its query. */
  url: string
  query: [name: string, value: Json][]
  body: Json | undefined
  /** Members of the response, for code that destructures it. */
  members: string[]
}

/** A language's notation of JSON values. */
interface Dialect {
  indent: string
  constants: Record<string, string>
  writeKey: (key: string) => string
}

const TYPESCRIPT: Dialect = {
  indent: '  ',
  constants: {},
  writeKey: (key) => {
    // A plain key would set the object's prototype.
    if (key === '__proto__') return "['__proto__']"
    return /^[a-z_$][\w$]*$/i.test(key) ? key : writeText(key)
  },
}
const PYTHON: Dialect = {
  indent: '    ',
  constants: { true: 'True', false: 'False', null: 'None' },
  writeKey: writeText,
}

/** The languages of the request examples, in the order of their tabs. */
export const LANGUAGES: readonly Language[] = [
  {
    id: 'curl',
    label: 'curl',
    write: (request) =>
      [
        `curl ${request.method === 'GET' ? '' : `-X ${request.method} `}${quoteShell(addressOf(request))}`,
        '-H "Authorization: Bearer $API_TOKEN"',
        ...(request.body === undefined
          ? []
          : [`-H 'Content-Type: application/json'`, `-d ${quoteShell(JSON.stringify(request.body, null, 2))}`]),
      ].join(' \\\n  '),
  },
  {
    id: 'typescript',
    label: 'TypeScript',
    write: (request) => {
      const { method, body, members } = request
      const lines = [
        ...(method === 'GET' ? [] : [`method: '${method}',`]),
        'headers: {',
        `  Authorization: \`Bearer \${process.env.API_TOKEN}\`,`,
        ...(body === undefined ? [] : [`  'Content-Type': 'application/json',`]),
        '},',
        ...(body === undefined ? [] : [`body: JSON.stringify(${writeValue(body, TYPESCRIPT, '  ')}),`]),
      ]
      return [
        `const response = await fetch(${writeText(addressOf(request))}, {`,
        ...lines.map((line) => `  ${line}`),
        '})',
        'if (!response.ok) throw new Error(await response.text())',
        `const ${members.length > 0 && members.length < 4 ? `{ ${members.join(', ')} }` : 'result'} = await response.json()`,
      ].join('\n')
    },
  },
  {
    id: 'python',
    label: 'Python',
    write: ({ method, url, query, body, members: [first, ...others] }) => {
      const params: Json = Object.fromEntries(query)
      return [
        'import os',
        'import requests',
        '',
        `response = requests.${method.toLowerCase()}(`,
        `    ${writeText(url)},`,
        `    headers={'Authorization': f'Bearer {os.environ["API_TOKEN"]}'},`,
        ...(query.length === 0 ? [] : [`    params=${writeValue(params, PYTHON, '    ')},`]),
        ...(body === undefined ? [] : [`    json=${writeValue(body, PYTHON, '    ')},`]),
        ')',
        'response.raise_for_status()',
        first !== undefined && others.length === 0
          ? `${snakeCase(first)} = response.json()['${first}']`
          : 'result = response.json()',
      ].join('\n')
    },
  },
]

/** Builds a request from an operation's documented example. */
export function sampleRequest({ method, path, parameters, body, responses }: Operation): SampleRequest {
  const exampleOf = (name: string) => parameters.find((each) => each.name === name)?.example ?? name
  const example = responses.find(({ status }) => status < 300)?.example
  return {
    method,
    url: BASE + path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(exampleOf(name)))),
    query: parameters.flatMap(({ name, place, example }) =>
      place === 'query' && example !== undefined ? [[name, example] satisfies [string, Json]] : [],
    ),
    body: body?.example,
    members: isObject(example) ? Object.keys(example) : [],
  }
}

/** The whole URL of a request. */
export function addressOf({ url, query }: Pick<SampleRequest, 'url' | 'query'>): string {
  const text = query
    .map(([name, value]) => `${name}=${encodeURIComponent(String(value)).replaceAll('%2C', ',')}`)
    .join('&')
  return text === '' ? url : `${url}?${text}`
}

function quoteShell(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}

/** A string literal of TypeScript and Python, which share the escapes of JSON. */
function writeText(text: string): string {
  const json = JSON.stringify(text)
  return text.includes("'") ? json : `'${json.slice(1, -1).replaceAll('\\"', '"')}'`
}

function writeValue(value: Json | undefined, dialect: Dialect, margin: string): string {
  const inner = margin + dialect.indent
  const block = (open: string, lines: string[], close: string) =>
    lines.length === 0
      ? open + close
      : `${open}\n${lines.map((line) => `${inner}${line},\n`).join('')}${margin}${close}`
  if (Array.isArray(value))
    return block(
      '[',
      value.map((each) => writeValue(each, dialect, inner)),
      ']',
    )
  if (isObject(value)) {
    const lines = Object.entries(value).map(([key, member]) => {
      return `${dialect.writeKey(key)}: ${writeValue(member, dialect, inner)}`
    })
    return block('{', lines, '}')
  }
  if (typeof value === 'string') return writeText(value)
  const json = JSON.stringify(value ?? null)
  return dialect.constants[json] ?? json
}

function snakeCase(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}
