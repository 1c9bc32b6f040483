import { afterAll, describe, expect, it } from 'vitest'
import { patternOf } from '../support/conformance.ts'
import { contracts, nameOf } from '../support/endpoints.ts'
import { SCENARIOS } from './scenarios.ts'
import { expectSeparate, type Scenario } from './twins.ts'

describe('a company between two others with the same ids', () => {
  const requested: string[] = []
  let scenarios = 0

  /** The scenario, whose requests are remembered. */
  const watched =
    (scenario: Scenario): Scenario =>
    async (actor) => {
      const { call } = actor
      actor.call = (method, path, ...rest) => {
        requested.push(`${method} ${path.replace(/\?.*/, '')}`)
        return call(method, path, ...rest)
      }
      await scenario(actor)
    }

  afterAll(() => {
    if (scenarios < Object.keys(SCENARIOS).length) return
    const missing = contracts.map(nameOf).filter((name) => !requested.some((one) => patternOf(name).test(one)))
    expect(missing, 'endpoints that no scenario requests').toEqual([])
  })

  it.each(Object.entries(SCENARIOS))('sees and stores the same as alone: %s', async (_, scenario) => {
    await expectSeparate(watched(scenario), 'DB')
    scenarios++
  })

  it('moves to a database with others as to an empty one', async () => {
    await expectSeparate(SCENARIOS.moves, 'DB', 'DB_TWO')
  })
})
