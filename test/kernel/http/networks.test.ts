import { describe, expect, it } from 'vitest'
import { networkOf } from '../../../src/kernel/http/outbound.ts'

describe('networkOf', () => {
  it.each([
    ['203.0.113.7', '203.0.113.7 ::ffff:203.0.113.7 ::FFFF:203.0.113.7 ::ffff:cb00:7107 0:0:0:0:0:ffff:203.0.113.7'],
    ['203.0.113.7', '0000:0000:0000:0000:0000:ffff:cb00:7107 ::203.0.113.7'],
    ['2001:db8:1::/48', '2001:db8:1:2:3:4:5:6 2001:db8:1:2:: 2001:db8:1:2::1 [2001:db8:1:2::5]'],
    ['2001:db8:1::/48', '2001:DB8:0001:0002:FFFF:ffff:ffff:ffff'],
    ['2001:db8:0::/48', '2001:db8::1 2001:db8:0:0:1:: 2001:db8::0:0:1.2.3.4'],
    ['fe80:0:0::/48', 'fe80::1%eth0 [fe80::1%25eth0]'],
    // The last is not mapped.
    ['0:0:0::/48', ':: ::1 ::ffff:0:203.0.113.7'],
  ])('is %s for %s', (network, addresses) => {
    for (const address of addresses.split(' ')) expect(networkOf(address), address).toBe(network)
  })

  const OTHER = `unknown 1.2.3 1.2.3.256 1.2.3.4.5 ::: 1::2::3 1:2:3:4:5:6:7 1:2:3:4:5:6:7:8:9 1:2:3:4:5:6:7:8:: 12345::
    g::1 ::1.2.3.4:5 1.2.3.4:: :1 1:`
  it.each(['', ...OTHER.split(/\s+/)])('returns other text as it is: %j', (text) => expect(networkOf(text)).toBe(text))

  it('truncates long text', () => {
    expect(networkOf('x'.repeat(10_000))).toHaveLength(64)
    expect(networkOf('1:'.repeat(5_000)).length).toBeLessThanOrEqual(64)
  })
})
