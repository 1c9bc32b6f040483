import { isObject, type Json } from '../json.ts'
import type { Operation } from '../reference.ts'

/** A placeholder for the server's origin, which the page replaces by its own. */
export const ORIGIN = 'https://api.example.com'
const BASE = `${ORIGIN}/api/v1`

type SampleRequest = ReturnType<typeof sampleRequest>

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

export const LANGUAGES = [
  { id: 'curl', label: 'curl', write: writeCurl },
  { id: 'typescript', label: 'TypeScript', write: writeTypeScript },
  { id: 'python', label: 'Python', write: writePython },
] as const

/** Builds a request from an operation's documented example. */
export function sampleRequest({ method, path, parameters, body, responses }: Operation) {
  const exampleOf = (name: string) => parameters.find((each) => each.name === name)?.example ?? name
  const example = responses.find(({ status }) => status < 300)?.example
  const query = parameters.filter((each) => each.in === 'query' && each.example !== undefined)
  return {
    method,
    /** The URL without its query. */
    url: BASE + path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(exampleOf(name)))),
    query: query.map(({ name, example }) => [name, example] as const),
    body: body?.example,
    /** Members of the response, for code that destructures it. */
    members: isObject(example) ? Object.keys(example) : [],
  }
}

export function addressOf({ url, query }: Pick<SampleRequest, 'url' | 'query'>): string {
  const pairs = query.map(([name, value]) => `${name}=${encodeURIComponent(String(value)).replaceAll('%2C', ',')}`)
  return pairs.length === 0 ? url : `${url}?${pairs.join('&')}`
}

function writeCurl(request: SampleRequest): string {
  const { method, body } = request
  return [
    `curl ${method === 'GET' ? '' : `-X ${method} `}${quoteShell(addressOf(request))}`,
    '-H "Authorization: Bearer $API_TOKEN"',
    ...(body === undefined
      ? []
      : [`-H 'Content-Type: application/json'`, `-d ${quoteShell(JSON.stringify(body, null, 2))}`]),
  ].join(' \\\n  ')
}

function writeTypeScript(request: SampleRequest): string {
  const { method, body, members } = request
  const hasBody = body !== undefined
  return [
    `const response = await fetch(${writeText(addressOf(request))}, {`,
    ...(method === 'GET' ? [] : [`  method: '${method}',`]),
    '  headers: {',
    `    Authorization: \`Bearer \${process.env.API_TOKEN}\`,`,
    ...(hasBody ? [`    'Content-Type': 'application/json',`] : []),
    '  },',
    ...(hasBody ? [`  body: JSON.stringify(${writeValue(body, TYPESCRIPT, '  ')}),`] : []),
    '})',
    'if (!response.ok) throw new Error(await response.text())',
    `const ${members.length > 0 && members.length < 4 ? `{ ${members.join(', ')} }` : 'result'} = await response.json()`,
  ].join('\n')
}

function writePython({ method, url, query, body, members: [first, ...others] }: SampleRequest): string {
  return [
    'import os',
    'import requests',
    '',
    `response = requests.${method.toLowerCase()}(`,
    `    ${writeText(url)},`,
    `    headers={'Authorization': f'Bearer {os.environ["API_TOKEN"]}'},`,
    ...(query.length === 0 ? [] : [`    params=${writeValue(Object.fromEntries(query), PYTHON, '    ')},`]),
    ...(body === undefined ? [] : [`    json=${writeValue(body, PYTHON, '    ')},`]),
    ')',
    'response.raise_for_status()',
    first !== undefined && others.length === 0
      ? `${first.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)} = response.json()['${first}']`
      : 'result = response.json()',
  ].join('\n')
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
  if (typeof value === 'string') return writeText(value)
  if (!Array.isArray(value) && !isObject(value)) {
    const json = JSON.stringify(value ?? null)
    return dialect.constants[json] ?? json
  }
  const inner = margin + dialect.indent
  const members = Object.entries(value).map(([key, member]) => {
    const name = Array.isArray(value) ? '' : `${dialect.writeKey(key)}: `
    return `${inner}${name}${writeValue(member, dialect, inner)},\n`
  })
  const [open, close] = Array.isArray(value) ? '[]' : '{}'
  return members.length === 0 ? `${open}${close}` : `${open}\n${members.join('')}${margin}${close}`
}
