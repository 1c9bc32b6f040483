import { describe, it } from 'vitest'
import { SCENARIOS } from './scenarios.ts'
import { expectSeparate } from './twins.ts'

describe('a company between two others with the same ids', () => {
  it.each(Object.entries(SCENARIOS))('sees and stores the same as alone: %s', async (_, scenario) => {
    await expectSeparate(scenario, 'DB')
  })

  it('moves to a database with others as to an empty one', async () => {
    await expectSeparate(SCENARIOS.moves, 'DB', 'DB_TWO')
  })
})
