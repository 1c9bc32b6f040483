import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { LruCache } from '../../../src/kernel/http/bounds.ts'

const entriesOf = <V>(cache: LruCache<string, V>, keys: string[]) => keys.filter((key) => cache.get(key) !== undefined)

describe('the cache', () => {
  it('is bounded by the weight of its entries, and does not store one that is heavier than all', () => {
    const cache = new LruCache<string, string>({ maxWeight: 10, weigh: (text) => text.length })
    cache.set('a', '1234')
    cache.set('b', '1234')
    cache.set('c', '12345')
    expect(entriesOf(cache, ['a', 'b', 'c'])).toEqual(['b', 'c'])
    cache.set('c', 'x'.repeat(11))
    expect(entriesOf(cache, ['a', 'b', 'c'])).toEqual(['b'])
  })

  it('serves an entry for its lifetime, counted from when it was set', () => {
    const cache = new LruCache<string, number>({ maxWeight: 2, ttlMs: 100 })
    cache.set('a', 1, 1_000)
    expect(cache.get('a', 1_099)).toBe(1)
    expect(cache.get('a', 1_100)).toBeUndefined()
  })

  it('agrees with a list in the order of use, whatever is done', () => {
    const key = fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f')
    const action = fc.oneof(
      fc.record({ does: fc.constant('set' as const), key, weight: fc.integer({ min: 0, max: 8 }) }),
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
            model.push([key, weight])
            while (model.reduce((sum, [, each]) => sum + each, 0) > 12) model.shift()
          }
        }
        // Read in the order of use, which reading in this order leaves as it is.
        const keys = model.map(([name]) => name)
        expect(keys.map((name) => [name, cache.get(name)])).toEqual(model)
        expect(entriesOf(cache, ['a', 'b', 'c', 'd', 'e', 'f']).sort()).toEqual(keys.sort())
      }),
    )
  })
})
