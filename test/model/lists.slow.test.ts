import { inject, it } from 'vitest'
import { runModel } from './run.ts'

const seed = inject('modelSeed')

it(`lists what a model in memory has, of three companies side by side, for 10,000 steps (seed ${seed})`, {
  timeout: 3_600_000,
}, async () => {
  await runModel({
    seed,
    steps: 10_000,
    sizes: [
      { clients: 9_000, orders: 5_000, threads: 1_500, contexts: 150 },
      { clients: 4_400, orders: 4_400, threads: 1_300, contexts: 120 },
      { clients: 4_400, orders: 1_300, threads: 1_300, contexts: 120 },
    ],
    lookAlike: { clients: 1_500, orders: 1_500, threads: 1_500, contexts: 20 },
  })
})
