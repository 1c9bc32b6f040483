import { describe, expect, it } from 'vitest'
import { networkOf } from '../../src/auth/failed-lookups.ts'

describe('the network of an address', () => {
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
    ['::203.0.113.7', '0:0:0:0::/64'],
    ['::ffff:0:203.0.113.7', '0:0:0:0::/64'],
  ])('%s is %s', (address, network) => {
    expect(networkOf(address)).toBe(network)
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
  ])('of what is no address is the text: %j', (text) => {
    expect(networkOf(text)).toBe(text)
  })

  it('is short, however long the text', () => {
    expect(networkOf('x'.repeat(10_000))).toHaveLength(64)
    expect(networkOf(`${'1:'.repeat(5_000)}`).length).toBeLessThanOrEqual(64)
  })
})
