import { expect, it } from 'vitest'
import { blockNetwork, delayLookup } from '../../../src/kernel/gate/tokens.ts'

it('looks up one retried token a second of a blocked network', () => {
  const NETWORK = '203.0.113.7'
  expect(delayLookup(NETWORK, 'a', 0)).toBe(0)
  expect(blockNetwork(NETWORK, 0)).toBe(1_000)
  expect(['a', 'b'].map((token) => delayLookup(NETWORK, token, 0))).toEqual([1_000, 1_000])
  expect(delayLookup(NETWORK, 'a', 500)).toBe(0)
  expect(delayLookup(NETWORK, 'b', 1_000)).toBe(500)
  expect(delayLookup(NETWORK, 'b', 1_500)).toBe(0)
  // A token that was looked up in vain is a new one again.
  expect(delayLookup(NETWORK, 'a', 3_000)).toBe(1_000)
})

it('blocks a network for a minute after its last new token', () => {
  const NETWORK = '203.0.113.8'
  blockNetwork(NETWORK, 0)
  expect(delayLookup(NETWORK, 'one', 59_999)).toBe(1_000)
  expect(delayLookup(NETWORK, 'two', 119_998)).toBe(1_000)
  expect(delayLookup(NETWORK, 'three', 179_998)).toBe(0)
})
