import fc from 'fast-check'
import { expect, it } from 'vitest'
import { findStyleCandidates } from '../../../src/resources/products/style-token.ts'

it.each(['PC61', 'DT6000', 'ST350LS', 'ST-350', 'BC3001', 'NL3600', 'K500', 'G500', '5000', '64000'])(
  'findStyleCandidates finds %s alone, in lower case and in punctuation',
  (style) => {
    expect(findStyleCandidates(style)).toEqual([style])
    expect(findStyleCandidates(`  (${style.toLowerCase()}), `)).toEqual([style])
  },
)

it.each([
  ['72 black PC61', ['PC61']],
  ['pc61,black,2XL', ['PC61']],
  ['PC61 tees 5.4oz 50/50 cotton', ['PC61']],
  ['k500 or g500 then K500', ['K500', 'G500']],
  ['24CT of "ST350LS".', ['ST350LS']],
  ['style 5000', ['5000']],
  ['Style: 64000 in navy', ['64000']],
  ['style no. 5000 black', ['5000']],
  ['style #5000', ['5000']],
  ['#5000', ['5000']],
  ['need # 5000 in red', ['5000']],
  ['PMS 186C on PC61', ['PC61']],
  ['style 2000', ['2000']],
  ['ABCDEFGHIJ12-ABCDEF', ['ABCDEFGHIJ12-ABCDEF']],
  ['футболка PC61', ['PC61']],
])('findStyleCandidates reads %j as %j', (text, styles) => {
  expect(findStyleCandidates(text)).toEqual(styles)
})

it.each([
  ['sizes', ['2XL', '3XLT', '4X', '5T', 'XS-4XL', 'S-3XL', '2T-5T', '10XL', '2xl-3xl', '18M']],
  ['units', ['6OZ', '24CT', '12PCS', '30S', '5K', '9AM', '1ST', '10X12', '32X34', '180GSM', '22nd', '10-12PM', '90s']],
  ['prefixes', ['PO12345', 'INV1001', 'INV-1001', 'PMS186', 'PMS186C', 'UPF50', 'SPF30', 'FY26', 'Q3', 'q4']],
  ['one letter and one digit', ['A4', 'M8', 'T1']],
  ['too many characters', ['ABCDEFGHIJK12', 'A1-2345678']],
  ['letters that only fold to Latin ones', ['STRAßE1', 'ſT350']],
  ['words', ['B2B', 'H2O', '3D', 'tee', '', ' ,#, ', 'bc3001/nl3600']],
  ['numbers of something else', ['style 12', 'style 1234567', 'PO 12345', 'PO #12345', 'order #1001']],
  ['prices and shares', ['$500', '100%', 'UPF50+']],
  ['fractions', ['50/50', '1/4', '5.4oz', '1/4-zip']],
  ['years', ['2025', '1999', 'class of 2026', 'summer 2025', '2024-2025']],
  ['quantities', ['72 black 5000', '144 tees', 'black 5000', '12', '1234567']],
])('findStyleCandidates never reads %s as a style', (_, texts) => {
  for (const text of texts) expect(findStyleCandidates(text), text).toEqual([])
})

it('findStyleCandidates returns only texts in the form of a style, whatever is typed', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 300 }), (text) => {
      for (const style of findStyleCandidates(text)) {
        expect(style).toMatch(/^(?:\d{3,6}|(?=.*[A-Z])(?=.*\d)[A-Z0-9]{2,12}(?:-[A-Z0-9]{1,6})?)$/)
        expect(text.toUpperCase()).toContain(style)
      }
    }),
    { numRuns: 500 },
  )
})

it('findStyleCandidates does not change with case, spacing or the punctuation around words', () => {
  const word = fc.constantFrom(...'PC61 black 72 5000 style # 2XL ST-350 PO Q3 6oz K500'.split(' '))
  const gap = fc.constantFrom(' ', ', ', ' \t', '\n', ',,', '. ', '; ', ' (', ') ')
  fc.assert(
    fc.property(fc.array(fc.tuple(word, gap), { maxLength: 8 }), (parts) => {
      const plain = findStyleCandidates(parts.map(([text]) => text).join(' '))
      const text = parts.map(([each, after]) => each + after).join('')
      expect(findStyleCandidates(text)).toEqual(plain)
      expect(findStyleCandidates(text.toLowerCase())).toEqual(plain)
    }),
  )
})

it('findStyleCandidates returns every candidate once, in the order of the text', () => {
  const styles = fc.array(fc.constantFrom('PC61', 'DT6000', 'ST350LS', 'ST-350', 'BC3001'), { maxLength: 10 })
  fc.assert(
    fc.property(styles, (words) => {
      expect(findStyleCandidates(words.join(' and '))).toEqual([...new Set(words)])
    }),
  )
})

it('findStyleCandidates is fast on a hostile text', () => {
  const startedMs = performance.now()
  for (const part of ['-', 'A1-', 'a ', '# ', '1,', 'PO ']) findStyleCandidates(part.repeat(30_000))
  findStyleCandidates(`a${'-'.repeat(100_000)}a`)
  expect(performance.now() - startedMs).toBeLessThan(10_000)
})
