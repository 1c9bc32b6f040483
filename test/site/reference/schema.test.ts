import { describe, expect, it } from 'vitest'
import * as z from 'zod/mini'
import { amount, date, dateTime, id, idText, trimmed, wholeNumber } from '../../../src/kernel/api/contract.ts'
import { SchemaWriter } from '../../../src/site/reference/schema.ts'

const nullableText = { type: ['string', 'null'] }
const positive = { type: 'integer', minimum: 1, maximum: 9007199254740991 }
const object = { type: 'object' }
const withText = { properties: { a: { type: 'string' } }, required: ['a'] }
const pattern = (regex: RegExp) => z.string().check(z.regex(regex))
const text = (pattern: string) => ({ type: 'string', pattern })
const upTo100 = { type: 'integer', minimum: 1, maximum: 100 }

describe('a Zod schema is published as what it accepts', () => {
  const cases: [string, z.ZodMiniType, 'input' | 'output', unknown][] = [
    ['an id', id, 'output', positive],
    ['an id in a query', idText, 'input', positive],
    ['a number in a query', wholeNumber(1, 100), 'input', upTo100],
    ['a default behind a transform', z._default(wholeNumber(1, 100), 25), 'input', { ...upTo100, default: 25 }],
    ['trimmed text', trimmed(255), 'input', expect.objectContaining({ type: 'string', minLength: 1, maxLength: 255 })],
    ['the rules behind a trim', z.pipe(z.string().check(z.trim()), pattern(/^x$/)), 'input', text('^x$')],
    ['a pattern with slashes and backslashes', pattern(/^\/a\\\/[^/]$/), 'input', text('^/a\\\\/[^/]$')],
    ['nullable text', z.nullable(z.string()), 'output', nullableText],
    ['a nullable enum', z.nullable(z.enum(['a', 'b'])), 'output', { ...nullableText, enum: ['a', 'b', null] }],
    ['a date', date, 'input', { type: 'string', format: 'date' }],
    ['a date-time in a request', z.iso.datetime({ offset: true }), 'input', { type: 'string', format: 'date-time' }],
    ['a date-time in a response', dateTime, 'output', { type: 'string', format: 'date-time', pattern: '\\.\\d{3}Z$' }],
    ['an amount', amount, 'output', { type: 'number' }],
    ['an object of anything', z.record(z.string(), z.unknown()), 'output', { ...object, additionalProperties: true }],
    [
      'a strict body',
      z.strictObject({ a: z.optional(z.string()) }),
      'input',
      { ...object, properties: { a: { type: 'string' } }, additionalProperties: false },
    ],
    ['a strict response', z.strictObject({ a: z.string() }), 'output', { ...object, ...withText }],
  ]
  it('a default in a body as text, since generators would make its field required', () => {
    const body = z.strictObject({
      a: z._default(z.int().check(z.describe('A number.')), 1),
      default: z._default(z.boolean(), true),
    })
    const { properties, required } = new SchemaWriter().write(body, 'body')
    expect(required).toBeUndefined()
    expect(properties).toEqual({
      a: expect.objectContaining({ type: 'integer', description: 'A number. Default: `1`.' }),
      default: { type: 'boolean', description: 'Default: `true`.' },
    })
  })

  it.each(cases)('%s', (_name, schema, io, expected) => {
    expect(new SchemaWriter().write(schema, io)).toEqual(expected)
  })
})

describe('components', () => {
  const shared = z.strictObject({ a: id }).check(z.meta({ id: 'Shared', description: 'Used twice.' }))

  it('holds a schema with an id once and refers to it', () => {
    const writer = new SchemaWriter()
    const reference = { $ref: '#/components/schemas/Shared' }
    expect(writer.write(shared, 'output')).toEqual(reference)
    expect(writer.write(z.array(shared), 'output')).toEqual({ type: 'array', items: reference })
    expect(writer.write(z.nullable(shared), 'output')).toEqual({ anyOf: [reference, { type: 'null' }] })
    expect([...writer.components.keys()]).toEqual(['Shared'])
  })

  it('publishes any JSON by name', () => {
    const writer = new SchemaWriter()
    expect(writer.write(z.array(z.json()), 'output')).toEqual({
      type: 'array',
      items: { $ref: '#/components/schemas/JsonValue' },
    })
    expect(writer.components.get('JsonValue')).toEqual({ description: 'Any JSON value.' })
  })

  it('throws for two schemas that differ under one id', () => {
    const differing = z
      .strictObject({ a: z.string(), b: z._default(z.string(), 'x') })
      .check(z.meta({ id: 'Differing' }))
    const writer = new SchemaWriter()
    writer.write(differing, 'input')
    expect(() => writer.write(differing, 'output')).toThrow('Two different schemas have the id Differing.')
  })

  it('throws for a schema that refers to itself and has no id', () => {
    const tree: z.ZodMiniType = z.strictObject({ children: z.lazy(() => z.array(tree)) })
    expect(() => new SchemaWriter().write(z.array(tree), 'output')).toThrow('refers to itself')
  })
})
