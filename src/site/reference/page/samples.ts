import { isObject, type Json } from '../json.ts'
import type { Operation } from '../reference.ts'

/** A placeholder for the server's origin, which the page replaces by its own. */
export const ORIGIN = 'https://api.example.com'
const BASE = `${ORIGIN}/api/v1`

type SampleRequest = ReturnType<typeof sampleRequest>

const PYTHON: Record<string, string> = { true: 'True', false: 'False', null: 'None' }

export const LANGUAGES = [
  { id: 'curl', label: 'curl', write: writeCurl },
  { id: 'typescript', label: 'TypeScript', write: writeTypeScript },
  { id: 'python', label: 'Python', write: writePython },
] as const

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
    ...(hasBody ? [`  body: JSON.stringify(${writeJson(body, 2, '  ')}),`] : []),
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
    ...(query.length === 0 ? [] : [`    params=${writePythonValue(Object.fromEntries(query))},`]),
    ...(body === undefined ? [] : [`    json=${writePythonValue(body)},`]),
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

function writeJson(value: Json | undefined, indent: number, margin: string): string {
  return JSON.stringify(value ?? null, null, indent).replaceAll('\n', `\n${margin}`)
}

function writePythonValue(value: Json | undefined): string {
  const tokens = /"(?:\\.|[^"\\])*"|true|false|null/g
  return writeJson(value, 4, '    ').replaceAll(tokens, (token) => PYTHON[token] ?? token)
}
