import { describe, expect, it } from 'vitest'
import { networksOf } from '../../../src/kernel/http/outbound.ts'

describe('networksOf', () => {
  it.each([
    ['203.0.113.7', '203.0.113.7'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:db8:1:2::', '2001:db8:1:2::/64'],
    ['2001:db8:1:2::1', '2001:db8:1:2::/64'],
    ['2001:DB8:0001:0002:FFFF:ffff:ffff:ffff', '2001:db8:1:2::/64'],
    ['[2001:db8:1:2::5]', '2001:db8:1:2::/64'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['2001:db8:0:0:1::', '2001:db8:0:0::/64'],
    ['2001:db8::0:0:1.2.3.4', '2001:db8:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['[fe80::1%25eth0]', 'fe80:0:0:0::/64'],
    ['::', '0:0:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['::ffff:203.0.113.7', '203.0.113.7'],
    ['::FFFF:203.0.113.7', '203.0.113.7'],
    ['::ffff:cb00:7107', '203.0.113.7'],
    ['0:0:0:0:0:ffff:203.0.113.7', '203.0.113.7'],
    ['0000:0000:0000:0000:0000:ffff:cb00:7107', '203.0.113.7'],
    // Not mapped.
    ['::203.0.113.7', '203.0.113.7'],
    ['::ffff:0:203.0.113.7', '0:0:0:0::/64'],
  ])('%s is in %s', (address, network) => {
    expect(networksOf(address)[0]).toBe(network)
  })

  it.each([
    'unknown',
    '',
    '1.2.3',
    '1.2.3.256',
    '1.2.3.4.5',
    ':::',
    '1::2::3',
    '1:2:3:4:5:6:7',
    '1:2:3:4:5:6:7:8:9',
    '1:2:3:4:5:6:7:8::',
    '12345::',
    'g::1',
    '::1.2.3.4:5',
    '1.2.3.4::',
    ':1',
    '1:',
  ])('returns other text as it is: %j', (text) => {
    expect(networksOf(text)).toEqual([text])
  })

  it('truncates long text', () => {
    expect(networksOf('x'.repeat(10_000))[0]).toHaveLength(64)
    expect(networksOf(`${'1:'.repeat(5_000)}`)[0].length).toBeLessThanOrEqual(64)
  })

  it.each([
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1::/48'],
    ['2001:DB8:0001:ffff::', '2001:db8:1::/48'],
    ['2001:db8::1', '2001:db8:0::/48'],
    ['::ffff:203.0.113.7', undefined],
    ['203.0.113.7', undefined],
    ['unknown', undefined],
  ])('%s is in the larger network %s', (address, site) => {
    expect(networksOf(address)[1]).toBe(site)
  })
})
