import { readFileSync } from 'node:fs'
import { type Schema, Validator } from '@cfworker/json-schema'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  checkSeed,
  describeSyntaxError,
  importCompany,
  importSeed,
  locateValues,
  readSeedFile,
} from '../../src/cli/seed-file.ts'
import type { Connection } from '../../src/cli/target.ts'
import { ApiError } from '../../src/client/errors.ts'
import { smallShop } from '../support/small-shop.ts'
import { writeSeed } from './cli-support.ts'

const SAMPLE = new URL('../../src/cli/sample-company.json', import.meta.url)
const readJson = (url: URL) => JSON.parse(readFileSync(url, 'utf8'))
const sample = readJson(SAMPLE)
const schema: Schema = readJson(new URL(sample.$schema, SAMPLE))
const validator = new Validator(schema, '2020-12', false)

/** The fields below a schema, as paths, each with its schema. */
function fieldsOf({ properties, items }: Schema, path = ''): [string, Schema][] {
  const members = Object.entries(properties ?? {}).flatMap<[string, Schema]>(([name, field]) =>
    typeof field === 'object' ? [[`${path}${name}`, field], ...fieldsOf(field, `${path}${name}.`)] : [],
  )
  return typeof items === 'object' ? [...members, ...fieldsOf(items, path)] : members
}

/** The paths of all fields of a value. */
function pathsOf(value: unknown, path = ''): string[] {
  if (typeof value !== 'object' || value === null) return []
  if (Array.isArray(value)) return value.flatMap((element) => pathsOf(element, path))
  return Object.entries(value).flatMap(([name, member]) => [`${path}${name}`, ...pathsOf(member, `${path}${name}.`)])
}

describe('the JSON Schema of a seed file', () => {
  it('accepts the sample company and a shop with integrations', () => {
    expect(validator.validate(sample).errors).toEqual([])
    expect(validator.validate(smallShop()).errors).toEqual([])
    const disabled = { supplier_b: { enabled: false, base_url: 'https://b.example', credentials: {} } }
    expect(validator.validate({ ...smallShop(), integrations: disabled }).errors).toEqual([])
  })

  it('accepts the example of the guide', () => {
    const guide = readFileSync(new URL('../../src/site/guides/companies.md', import.meta.url), 'utf8')
    const example = JSON.parse(/^```json\n(.*?)^```$/ms.exec(guide)?.[1] ?? '')
    expect(validator.validate(example).errors).toEqual([])
    expect(Object.keys(checkSeed(example, 'company.json'))).toContain('orders')
  })

  it.each([
    ['an unknown field', { ...smallShop(), surprise: 1 }],
    ['a missing company', { clients: [] }],
    ['an id of 0', { ...smallShop(), taxes: [{ id: 0, name: 'x', rate: 1 }] }],
    ['an id above 2^48', { ...smallShop(), taxes: [{ id: 2 ** 48 + 1, name: 'x', rate: 1 }] }],
    ['a client that is no object', { ...smallShop(), thread_contexts: [{ thread_id: 'x', client_data: 7 }] }],
    ['a blank name', { company: { id: 1, name: ' ' } }],
    ['a date that is none', { ...smallShop(), orders: [{ id: 1, title: 'x', client_id: 1, deadline: 'soon' }] }],
    [
      'a missing credential',
      { ...smallShop(), integrations: { supplier_b: { base_url: 'x', credentials: { a: '' } } } },
    ],
  ])('rejects %s, as the seed does', (_name, file) => {
    expect(validator.validate(file).valid).toBe(false)
    expect(() => checkSeed(file, 'shop.json')).toThrow('shop.json: ')
  })

  it('describes every field, and the sample company has an example of each that a sample can have', () => {
    const fields = fieldsOf(schema)
    expect(fields.length).toBeGreaterThan(100)
    expect(fields.filter(([, { description }]) => !description).map(([path]) => path)).toEqual([])
    const shown = new Set(pathsOf(sample))
    const ownSystems =
      /^integrations|^company\.(last|created|updated)_|invoice\.\w+ed_at$|version$|_linked$|deleted$|tax_code_id$|accounting_customer_id$/
    expect(fields.map(([path]) => path).filter((path) => !shown.has(path) && !ownSystems.test(path))).toEqual([])
  })
})

describe('an invalid seed file', () => {
  it('is reported with all its issues, each with its line and column', async () => {
    const path = await writeSeed(`\uFEFF{
      "company": { "id": 1, "naem": "Shop" },
      "taxes": [{ "id": 1, "name": "x", "rate": "8" },
                { "id": 2, "name": "y", "rate": 101, "color": 1, "size": 2 }],
      "integrations": { "supplier_b": { "base_url": "ftp://b.example", "credentials": { "api_key": "k" } } }
    }`)
    const error = await readSeedFile(path, 'shop.json').catch(({ message }) => message)
    const messages = String(error)
      .split(/(?<=\)); /)
      .map((message) => message.replace(/(field|number)\b[^`]* \(/, '$1 ('))
    expect(messages.sort()).toEqual([
      '`company.naem` is not a known field (line 2, column 29)',
      '`integrations.supplier_b.base_url` must be an https address (line 5, column 41)',
      '`integrations.supplier_b.credentials.account_number` is required (line 5, column 72)',
      '`taxes[0].rate` must be a number (line 3, column 41)',
      '`taxes[1].color` is not a known field (line 4, column 54)',
      '`taxes[1].rate` must be at most 100 (line 4, column 41)',
      '`taxes[1].size` is not a known field (line 4, column 66)',
      'shop.json: `company.name` is required (line 2, column 7)',
    ])
  })

  it('is reported with its first 100 issues and the number of the others', () => {
    const clients = Array.from({ length: 130 }, (_, id) => ({ id: -id, company_name: 'x' }))
    const file = { company: { id: 1, name: 'x' }, clients }
    const read = () => checkSeed(file, 'shop.json')
    expect(read).toThrow(/^shop\.json: `clients\[0\]\.id` .*; `clients\[99\]\.id` [^;]* \(and 30 more\)$/)
  })

  it.each([
    ['{"a": "secret', 'line 1, column 7 is not valid JSON: unterminated string.'],
    ['{\n\t"a": 1,\n}', 'line 3, column 1 is not valid JSON: expected double-quoted property name.'],
    ['{"a" 1}', "line 1, column 6 is not valid JSON: expected ':' after property name."],
    ['{"a": 1 "b": 2}', "line 1, column 9 is not valid JSON: expected ',' or '}' after property value."],
    ['[1, 2', "line 1, column 6 is not valid JSON: expected ',' or ']' after array element."],
    ['{"a": secret}', "line 1, column 7 is not valid JSON: unexpected token 's'."],
    ['{}\n{}', 'line 2, column 1 is not valid JSON: unexpected non-whitespace character.'],
    ['', 'line 1, column 1 is not valid JSON: unexpected end of JSON input.'],
  ])('is reported with the place where it is not JSON', (text, message) => {
    expect(parseError(text)).toBe(message)
  })
})

it('imports contexts that name the exported company as those of the new one', async () => {
  const named = (company_id: unknown, companyId = company_id) => [
    { id: 7, company_id, by: [7, { companyId, company: 7 }] },
  ]
  const sent: unknown[] = []
  const call = async (_contract: unknown, { body }: { body: { file: object } }) => {
    sent.push(body.file)
    return { differences: [] }
  }
  const lines = [
    { type: 'company', data: { id: 7, name: 'A' } },
    { type: 'thread_contexts', data: { thread_id: '7', clients_data: [...named(7, '7'), ...named(8), ...named([7])] } },
    { type: 'end' },
  ]
  const file = await writeSeed(lines.map((line) => JSON.stringify(line)).join('\n'))
  await importCompany({ call, find: async () => null } as unknown as Connection, 12, file)
  const context = { thread_id: '7', clients_data: [...named(12), ...named(8), ...named([7])] }
  expect(sent).toEqual([{ company: { id: 12, name: 'A' }, thread_contexts: [context] }])
})

it('names what was created between the check of a file of several parts and its load, and each row once', async () => {
  const differing = (id: number) => ({ type: 'client', id, fields: ['company_name'] })
  const call = async (_contract: unknown, { body: { check, part } }: { body: { check: boolean; part: number } }) => {
    return { differences: part === 1 ? [differing(1), ...(check ? [] : [differing(2)])] : [] }
  }
  const service = { call, find: async () => null } as unknown as Connection
  const clients = Array.from({ length: 600 }, (_, index) => ({ id: index + 1, company_name: 'A' }))
  const { differences } = await importSeed(service, { company: { id: 7, name: 'A' }, clients }, 'shop.json')
  expect(differences).toEqual([differing(1), differing(2)])
})

describe('a file that cannot be imported', () => {
  const service = {
    call: async ({ operationId }: { operationId: string }) => {
      if (operationId === 'createImport') return { differences: [] }
      throw new ApiError({ status: 409, code: 'conflict', message: 'The thread is in the database.' })
    },
    find: async () => null,
  } as unknown as Connection
  const lines = (...texts: string[]) =>
    writeSeed(['{"type":"company","data":{"id":1,"name":"A"}}', ...texts].join('\n'))
  const importOf = async (path: string) => {
    const error = await importCompany(service, 7, path).catch(({ message }) => message)
    return String(error).replace(path, 'FILE')
  }

  it('is named when it is not UTF-8, and nothing of it is loaded', async () => {
    const path = await writeSeed(Buffer.from('{"company":{"id":1,"name":"Caf\xe9"}}', 'latin1'))
    await expect(readSeedFile(path, 'shop.json')).rejects.toThrow('shop.json: is not UTF-8: save it as UTF-8.')
    expect(await importOf(path)).toBe('FILE: is not UTF-8: save it as UTF-8.')
  })

  it('is named with its line, and with the remedy for threads that the database has already', async () => {
    expect(await importOf(await lines('{"type":'))).toBe('FILE: line 2 is not JSON.')
    expect(await importOf(await lines('{"type":"end"}', '', '{"type":"email_threads","data":{"id":"x"}}'))).toBe(
      'FILE, line 4: The thread is in the database. Move company 7 to another database, and run this again.',
    )
  })
})

describe('the places in a JSON text', () => {
  const json = fc.json({ maxDepth: 4, noUnicodeString: false })

  it('are those of the values that JSON.parse reads', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string({ minLength: 1 }), fc.jsonValue(), { minKeys: 1, maxKeys: 5 }), (object) => {
        const text = JSON.stringify(object, null, 2)
        const lines = text.split('\n')
        const places = locateValues(
          text,
          Object.keys(object).map((key) => [key]),
        )
        Object.keys(object).forEach((key, index) => {
          const [, line = 0, column = 0] = (/line (\d+), column (\d+)/.exec(places[index] ?? '') ?? []).map(Number)
          expect(lines[line - 1]?.slice(column - 1).startsWith(`${JSON.stringify(key)}: `)).toBe(true)
        })
      }),
    )
  })

  it('end where JSON.parse fails, and only there', () => {
    const damaged = fc.tuple(json, fc.nat(), fc.constantFrom('', '"', ',', '{', ']', '\\', '0', '\n', ' ', 'e', '-'))
    fc.assert(
      fc.property(damaged, ([text, place, inserted]) => {
        const at = place % (text.length + 1)
        const broken = text.slice(0, at) + inserted + text.slice(inserted === '' ? at + 1 : at)
        const problem = parseError(broken)
        expect(problem ?? 'line').toMatch(/^line/)
        expect(locateValues(broken, [[]])).toHaveLength(problem === null ? 1 : 0)
      }),
      { numRuns: 2000 },
    )
  })
})

/** The problem of a text that is not JSON; null of JSON. */
function parseError(text: string): string | null {
  try {
    JSON.parse(text)
    return null
  } catch (error) {
    return describeSyntaxError(text, error)
  }
}
