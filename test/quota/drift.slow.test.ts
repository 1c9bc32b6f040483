import { env } from 'cloudflare:workers'
import { expect, it } from 'vitest'
import { createRandom } from '../support/random.ts'
import { readRowBytes, readStored } from './support.ts'
import { openWorks } from './work.ts'

const WRITES = 100_000

it(`does not drift in ${WRITES.toLocaleString('en')} random writes of two companies`, {
  timeout: 3_600_000,
}, async () => {
  const seed = Math.floor(Math.random() * 2 ** 31)
  console.log(`seed ${seed}`)
  const random = createRandom(seed)
  const works = await openWorks(seed, Date.UTC(2026, 10, 1))
  const sizeBytes = async () => (await env.DB.prepare('SELECT 1').run()).meta.size_after
  const empty = await sizeBytes()
  let writes = 0
  for (let turn = 0; writes < WRITES; turn++) {
    for (const work of works) writes += random.chance(0.7) ? await work.batch(100) : Number(await work.step())
    if (turn % 100 !== 0 && writes < WRITES) continue
    let counted = 0
    for (const { companyId } of works) {
      const stored = await readStored(companyId)
      expect(stored.counted - stored.real, `drift after ${writes} writes`).toBe(0)
      counted += stored.counted + (await readRowBytes(companyId))
    }
    const real = (await sizeBytes()) - empty
    console.log(`${writes} writes: drift 0 bytes; ${counted} counted, ${real} of the database`)
  }
})
