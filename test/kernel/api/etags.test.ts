import { expect, it } from 'vitest'
import { etagsOf } from '../../../src/kernel/api/endpoint.ts'

it.each<[string | null, string[] | '*']>([
  [null, []],
  ['', []],
  ['*', '*'],
  [' * ', '*'],
  ['"a"', ['"a"']],
  ['W/"a"', ['"a"']],
  ['"a"x, "b"', ['"b"']],
  ['"a", W/"b" ,"c"', ['"a"', '"b"', '"c"']],
  ['"a,b", "c d"', ['"a,b"']],
  ['"a"\t,"b"', ['"a"', '"b"']],
  ['""', ['""']],
  ['a', []],
  ['"a', []],
  ['w/"a"', []],
  ['"*"', ['"*"']],
])('If-None-Match %j names %j', (header, expected) => {
  expect(etagsOf(header)).toEqual(expected)
})

it('If-None-Match is read no further than 8 KiB', () => {
  expect(etagsOf(`${'"x",'.repeat(1_000_000)}`).length).toBe(2048)
})
