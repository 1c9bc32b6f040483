import { inject, it } from 'vitest'
import { runModel } from './run.ts'

const seed = inject('modelSeed')

/** Seconds on a quiet machine. */
const TIMEOUT = { timeout: 600_000 }

it(`lists what a model in memory has, of three companies side by side (seed ${seed})`, TIMEOUT, async () => {
  await runModel({
    seed,
    steps: 150,
    // Above 1,000 hits of clients and orders, which are gathered, and 1,000 threads of a mailbox; one company has few.
    sizes: [
      { clients: 4_400, orders: 1_200, threads: 40, contexts: 5 },
      { clients: 1_200, orders: 1_200, threads: 1_300, contexts: 120 },
      { clients: 200, orders: 100, threads: 100, contexts: 5 },
    ],
    lookAlike: { clients: 300, orders: 10, threads: 10, contexts: 5 },
  })
})
