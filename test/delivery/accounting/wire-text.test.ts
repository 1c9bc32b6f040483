import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  cleanLine,
  cleanProse,
  formatEmail,
  listDisplayNames,
  toDisplayName,
} from '../../../src/delivery/accounting/invoice-payload.ts'
import { checkName, checkTexts } from '../../../src/simulators/accounting-fields.ts'

describe('the name of a customer', () => {
  it.each([
    ['Acme', 'Acme'],
    ['Smith: Team Blue', 'Smith - Team Blue'],
    ['A:B', 'A - B'],
    [' Tab\there\r\nand there ', 'Tab here and there'],
    ['Bell\u0007 and \u0085 next', 'Bell and next'],
    ['\u0000\n', ''],
    ['O’Brien & Söns "Ltd" 株式会社', 'O’Brien & Söns "Ltd" 株式会社'],
    ['x'.repeat(501), 'x'.repeat(500)],
    [`${'x'.repeat(499)}😀`, 'x'.repeat(499)],
  ])('of %j is %j', (name, expected) => {
    expect(toDisplayName(name)).toBe(expected)
  })

  it('is one that the accounting system accepts, and derives to itself', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 600 }), (name) => {
        const derived = toDisplayName(name)
        fc.pre(derived !== '')
        expect(toDisplayName(derived)).toBe(derived)
        listDisplayNames(derived).forEach(checkName)
        checkTexts(listDisplayNames(derived))
      }),
      { numRuns: 50 },
    )
  })

  it('has a fallback, different and short enough', () => {
    expect(listDisplayNames('Acme')).toEqual(['Acme', 'Acme (customer)'])
    const [long, other] = listDisplayNames('x'.repeat(500))
    expect([long?.length, other]).toEqual([500, `${'x'.repeat(489)} (customer)`])
  })
})

describe('a text for the accounting system', () => {
  it('of one line has no control characters', () => {
    expect(cleanLine('Tee,\tblack\u2028XL\u0001 ')).toBe('Tee, black XL')
  })

  it('of several lines keeps line breaks and tabs', () => {
    expect(cleanProse('a\r\nb\rc\td\u0000e\ud800')).toBe('a\nb\nc\td e\ufffd')
  })

  it('is no email that the accounting system would refuse', () => {
    expect(formatEmail('ann@acme.test')).toBe('ann@acme.test')
    expect(formatEmail(`${'x'.repeat(95)}@a.test`)).toBeNull()
    expect(formatEmail('a\n@acme.test')).toBeNull()
    expect(formatEmail(null)).toBeNull()
  })
})
