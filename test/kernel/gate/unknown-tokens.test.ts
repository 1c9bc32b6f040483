import { expect, it } from 'vitest'
import { blockNetwork, delayLookup } from '../../../src/kernel/gate/unknown-tokens.ts'

const NETWORK = '203.0.113.77'

it('a blocked network has one look-up at the very moment at which its turn comes', () => {
  expect(blockNetwork(NETWORK, 0)).toBe(1_000)
  expect(delayLookup([NETWORK], 'one', 999)).toBe(1)
  expect(delayLookup([NETWORK], 'two', 1_000)).toBe(0)
  expect(delayLookup([NETWORK], 'three', 1_000)).toBe(1_000)
  expect(delayLookup([NETWORK], 'three', 60_000)).toBe(0)
  expect(delayLookup([NETWORK], 'four', 60_000)).toBe(0)
})
