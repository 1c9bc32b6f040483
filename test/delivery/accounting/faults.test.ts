import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { readFault } from '../../../src/delivery/accounting/transport.ts'
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
