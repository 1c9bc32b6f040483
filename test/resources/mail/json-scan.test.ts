import fc from 'fast-check'
import { expect, it } from 'vitest'
import { type Kind, type Member, scanObject } from '../../../src/resources/mail/json-scan.ts'

const NAMES = ['a', 'list', 'labels', 'messages']
const ELEMENTS: Record<string, Kind> = { list: 'object', labels: 'string', messages: 'object' }

const encoder = new TextEncoder()

/** The results of the scanner and of JSON.parse in one form. */
function byScanner(text: string): unknown {
  try {
    const members = scanObject(encoder.encode(text), NAMES, ELEMENTS)
    return members && Object.fromEntries([...members].map(([name, member]) => [name, parsed(member)]))
  } catch (error) {
    if (error instanceof SyntaxError) return 'no JSON'
    throw error
  }
}

function parsed({ text }: Member): unknown {
  return JSON.parse(new TextDecoder().decode(text))
}

function byParser(text: string): unknown {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return 'no JSON'
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return null
  return Object.fromEntries(Object.entries(value).filter(([name]) => NAMES.includes(name)))
}

const ACCEPTED = [
  '{}',
  ' \t\r\n{ } \n',
  '{"a":1}',
  '{"a" : -0.0e-0 , "b":[ ] }',
  '{"a":[[],{},[{"b":[1,2,{"c":null}]}],"",true,false,null,1E+2,0.5,-1,12345678901234567890.5e400]}',
  '{"a":"\\u0000\\ud800\\"\\\\\\/\\b\\f\\n\\r\\t\\uDFFF"}',
  '{"a":"é漢😀\u2028\u007f"}',
  '{"\\u0061":2}',
  '{"a":1,"a":2}',
  '{"a":1,"\\u0061":[3]}',
  '{"__proto__":1,"constructor":2,"a":3,"toString":4}',
  `{"${'x'.repeat(5000)}":1,"a":2}`,
  `{"${'\\u0061'.repeat(5000)}":1,"a":2}`,
  '{"list":[],"labels":["x"],"messages":[{},{"a":[]}]}',
]

/** Beside what the damage of the property below makes. */
const REFUSED = [
  ...['', ' ', '{', '{a:1}', "{'a':1}", '{"a":[[[', '{/**/}', '{"a":1}\u0000', '01', 'tru'],
  ...['0x1', 'NaN', 'Infinity', 'undefined'].map((value) => `{"a":${value}}`),
]

it.each(ACCEPTED)('the scanner reads %j as JSON.parse does', (text) => {
  expect(byScanner(text)).toEqual(byParser(text))
  expect(byScanner(text)).not.toBe('no JSON')
})

it.each(REFUSED)('the scanner refuses %j as JSON.parse does', (text) => {
  expect(byParser(text)).toBe('no JSON')
  expect(byScanner(text)).toBe('no JSON')
})

it.each(['null', ' 1 ', '"a"', '[{"a":1}]', 'true'])('the scanner finds no object in %s', (text) => {
  expect(byScanner(text)).toBeNull()
})

it('the scanner agrees with JSON.parse on any JSON with any white space', () => {
  const value = fc.dictionary(fc.constantFrom('a', 'list', 'messages', 'b', '\u0000'), fc.jsonValue())
  fc.assert(
    fc.property(value, fc.constantFrom('', ' ', '\n\t', 2), (object, space) => {
      const text = JSON.stringify(object, null, space)
      expect(byScanner(text)).toEqual(byParser(text))
    }),
    { numRuns: 500 },
  )
})

it('the scanner agrees with JSON.parse on damaged JSON', () => {
  const damage = fc.constantFrom('', ...'"\\{}[],:0-.eu \n\u0001\u00a0+\'é')
  const value = fc.dictionary(fc.constantFrom('a', 'labels', 'messages'), fc.jsonValue({ maxDepth: 3 }))
  fc.assert(
    fc.property(value, fc.nat(), fc.nat(3), damage, (object, place, cut, inserted) => {
      const text = JSON.stringify(object)
      const at = place % (text.length + 1)
      const damaged = text.slice(0, at) + inserted + text.slice(at + cut)
      // Half a surrogate pair is not UTF-8: the scanner never gets it.
      fc.pre(damaged.isWellFormed())
      expect(byScanner(damaged)).toEqual(byParser(damaged))
    }),
    { numRuns: 3_000 },
  )
})

it('the scanner counts the elements of an array and lists those of another kind', () => {
  const text = '{"messages":[{}, 1 ,{"a":[1]},"x",null,[]],"labels":["a",{}],"a":[1],"list":{}}'
  const members = scanObject(encoder.encode(text), NAMES, ELEMENTS)
  expect(members?.get('messages')).toMatchObject({ kind: 'array', count: 6, mismatches: [1, 3, 4, 5] })
  expect(members?.get('labels')).toMatchObject({ kind: 'array', count: 2, mismatches: [1] })
  expect(members?.get('a')).toMatchObject({ kind: 'array', count: 1, mismatches: [] })
  expect(members?.get('list')).toMatchObject({ kind: 'object', count: 0 })
})

it('the scanner reads arrays where other values may stand', () => {
  const values = '[] [1] [[1]] ["a"] ["a","b"] [{}] [ [1]2 1 12 "a" "ab"'
  const list = fc.constantFrom(' [ 1 ]', ...values.split(' '))
  const text = fc
    .tuple(list, list, list)
    .map(([labels, messages, a]) => `{"labels":${labels},"messages":${messages},"a":${a}}`)
  fc.assert(
    fc.property(text, (each) => {
      expect(byScanner(each)).toEqual(byParser(each))
    }),
    { numRuns: 2_000 },
  )
})

it('the scanner lists at most 1,000 mismatches', () => {
  const text = `{"messages":[${Array(5_000).fill('1').join()}]}`
  const member = scanObject(encoder.encode(text), NAMES, ELEMENTS)?.get('messages')
  expect(member?.count).toBe(5_000)
  expect(member?.mismatches).toEqual(Array.from({ length: 1_000 }, (_, index) => index))
})

it('the scanner scans a million levels of depth', () => {
  const deep = `{"messages":[{"a":${'['.repeat(1_000_000)}${']'.repeat(1_000_000)}}]}`
  const member = scanObject(encoder.encode(deep), NAMES, ELEMENTS)?.get('messages')
  expect(member).toMatchObject({ count: 1, mismatches: [] })
  expect(() => scanObject(encoder.encode(deep.replace(']]}', ']}')), NAMES, ELEMENTS)).toThrow(SyntaxError)
})
