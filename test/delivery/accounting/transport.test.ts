import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { readFault, redactSecrets } from '../../../src/delivery/accounting/transport.ts'
import { makeFault, makeLowerFault, makeXmlFault } from '../../../src/simulators/accounting-data.ts'

describe('readFault', () => {
  it.each([
    ['upper-case', makeFault('6070', 'Wrong amount', 'Line 1'), ['6070'], 'Wrong amount: Line 1', null],
    ['lower-case', makeLowerFault('3200', 'Token expired', 'AUTHENTICATION'), ['3200'], 'Token expired', null],
    ['XML', makeXmlFault('3001', 'Slow down'), ['3001'], 'message=Slow down; errorCode=003001', null],
    ['XML with a prefix', "<a:Fault><a:Error code='003001'/></a:Fault>", ['3001'], '', null],
    ['OAuth', '{"error":"invalid_grant","error_description":"Expired"}', [], 'Expired', 'invalid_grant'],
    ['a number as code', '{"Fault":{"Error":[{"code":610}]}}', ['610'], '', null],
    ['leading zeros', '{"fault":{"error":[{"code":"003001"}]}}', ['3001'], '', null],
    ['no list', '{"Fault":{"Error":{"code":"5010","Message":"Stale"}}}', ['5010'], 'Stale', null],
    ['several', '{"Fault":{"Error":[{"code":"2020"},{"code":"6000"}]}}', ['2020', '6000'], '', null],
    ['no error in it', '{"Fault":{}}', [], '', null],
  ])('reads a fault: %s', (_name, body, codes, message, oauthError) => {
    expect(readFault(body)).toEqual({ codes, message, oauthError })
  })

  it.each([
    '',
    '{}',
    '[]',
    'null',
    '{"Invoice":{"Id":"1"}}',
    '<html><body>Fault</body></html>',
    '{"Fault":null}',
    '{"a',
  ])('finds no fault in %s', (body) => {
    expect(readFault(body)).toBeNull()
  })

  it('never throws', () => {
    fc.assert(fc.property(fc.oneof(fc.string(), fc.json()), (body) => void readFault(body)))
  })
})

const MAX = 300

describe('redactSecrets', () => {
  it.each([
    ['a secret', 'No s3cret! here', ['s3cret!'], 'No [secret] here'],
    ['a secret as a URL encodes it', 'No a%2Fb%20c here', ['a/b c'], 'No [secret] here'],
    ['a secret as a form encodes it', 'No a%2Fb+%7Ec here', ['a/b ~c'], 'No [secret] here'],
    ['a secret that holds another', 'No abcdef here', ['abc', 'abcdef'], 'No [secret] here'],
    [
      'a secret within the mark of another',
      'A system, a secret',
      ['s', 'secret'],
      'A [secret]y[secret]tem, a [secret]',
    ],
    ['a long word with a digit', `No ${'x'.repeat(23)}1 here`, [], 'No [secret] here'],
    ['a long word of letters', `No ${'x'.repeat(24)} here`, [], `No ${'x'.repeat(24)} here`],
    ['a secret that is not well formed', 'No secret here', ['', '\ud800'], 'No secret here'],
  ])('handles %s', (_name, text, secrets, expected) => {
    expect(redactSecrets(text, secrets)).toBe(expected)
  })

  it('cuts any text to the length', () => {
    for (const unit of ['%', '%1', 'a1 ', '=', ' ', '1'.repeat(23)]) {
      expect(redactSecrets(unit.repeat(4_000_000 / unit.length), ['secret']).length).toBeLessThanOrEqual(MAX)
    }
  })

  it('never shows the beginning of a secret that the cut would halve', () => {
    const secret = fc.string({ unit: fc.constantFrom(...'abc/+ é%'), minLength: 6, maxLength: 400 })
    fc.assert(
      fc.property(secret, secret, fc.nat(400), fc.nat(3), (first, second, at, gap) => {
        const text = `${'.'.repeat(at)}${first}${'.'.repeat(gap)}${second}${'.'.repeat(100)}`
        const shown = redactSecrets(text, [first, second]).replaceAll('[secret]', '')
        for (const each of [first, second]) expect(shown.includes(each.slice(0, 4))).toBe(false)
      }),
      { numRuns: 1_000 },
    )
  })

  it('never shows the beginning of an unknown token that the cut would halve', () => {
    for (let at = 270; at <= 310; at++) {
      const text = `${'. '.repeat(200).slice(0, at)} access-1001-0f9d8c7b6a5e4d3c2b1a0f9d8c7b6a5e`
      const shown = redactSecrets(text, [])
      expect(shown.replace('[secret]', '').replaceAll(/[. ]/g, '')).toBe('')
    }
  })
})
