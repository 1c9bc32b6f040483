import fc from 'fast-check'
import { expect, it } from 'vitest'
import { LruCache } from '../../../src/kernel/http/isolate.ts'

const KEYS = ['a', 'b', 'c', 'd', 'e', 'f']

it('the cache serves an entry for its lifetime, counted from when it was set', () => {
  const cache = new LruCache<string, number>({ maxWeight: 2, ttlMs: 100 })
  cache.set('a', 1, 1_000)
  expect(cache.get('a', 1_099)).toBe(1)
  expect(cache.get('a', 1_100)).toBeUndefined()
})

it('the cache agrees with a list in the order of use that is bounded by weight, and does not store what is heavier than all', () => {
  const key = fc.constantFrom(...KEYS)
  const action = fc.oneof(
    fc.record({ does: fc.constant('set' as const), key, weight: fc.integer({ min: 0, max: 14 }) }),
    fc.record({ does: fc.constant('get' as const), key, weight: fc.constant(0) }),
    fc.record({ does: fc.constant('delete' as const), key, weight: fc.constant(0) }),
  )
  fc.assert(
    fc.property(fc.array(action, { maxLength: 100 }), (actions) => {
      const cache = new LruCache<string, number>({ maxWeight: 12, weigh: (weight) => weight })
      let model: [string, number][] = []
      for (const { does, key, weight } of actions) {
        const known = model.find(([name]) => name === key)
        model = model.filter(([name]) => name !== key)
        if (does === 'get') {
          expect(cache.get(key)).toBe(known?.[1])
          if (known) model.push(known)
        } else if (does === 'delete') cache.delete(key)
        else {
          cache.set(key, weight)
          if (weight <= 12) model.push([key, weight])
          while (model.reduce((sum, [, each]) => sum + each, 0) > 12) model.shift()
        }
      }
      // Read in the order of use, which reading in this order leaves as it is.
      const keys = model.map(([name]) => name)
      expect(keys.map((name) => [name, cache.get(name)])).toEqual(model)
      expect(KEYS.filter((name) => cache.get(name) !== undefined)).toEqual(keys.sort())
    }),
  )
})
