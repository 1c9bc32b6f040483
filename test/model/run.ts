import { expect } from 'vitest'
import { migrate, sqlIn } from '../support/app.ts'
import { createRandom, type Random } from '../support/random.ts'
import { ALL_KINDS, type Kind } from './choice.ts'
import { checkCommon, SORTS, WALKS } from './lists.ts'
import { Shop, type Sizes } from './shop.ts'
import { WRITES } from './writes.ts'

/** The highest id that a seed may have is 2^48. */
const HIGH_BASE = 2 ** 48 - 100_000
/** So many walks are open at a time. */
const MAX_WALKS = 20

interface Options {
  seed: number
  steps: number
  sizes: readonly [Sizes, Sizes, Sizes]
  lookAlike: Sizes
}

/**
 * Three companies side by side, two of them in one database with the same ids, against a model in memory. Behind a
 * look-alike, none is the first of its database. A failure names the seed and the step.
 */
export async function runModel({ seed, steps, sizes: [first, second, third], lookAlike }: Options): Promise<void> {
  await migrate()
  for (const home of ['DB', 'DB_TWO'] as const) await Shop.open(home, 0, lookAlike)
  const shops = [
    await Shop.open('DB', 0, first),
    await Shop.open('DB', 0, second),
    await Shop.open('DB_TWO', HIGH_BASE, third),
  ]
  for (const shop of shops) {
    const [row] = await sqlIn<{ slot: number }>(shop.company.home, 'SELECT slot FROM companies WHERE id = ?', shop.id)
    expect(row?.slot).toBeGreaterThan(0)
  }
  for (const shop of shops) await checkCommon(shop, [undefined])
  const random = createRandom(seed)
  const runner = new Runner(shops, random)
  for (let number = 0; number < steps; number++) {
    const [kind, company] = [random.pick(ALL_KINDS), random.between(0, 2)]
    try {
      await runner.run(kind, company)
    } catch (error) {
      const where = `Step ${number} of seed ${seed}: ${kind} of company ${company}: ${runner.doing}`
      throw new Error(`${where}\n${error instanceof Error ? error.message : error}`, { cause: error })
    }
  }
  await runner.finish()
  for (const shop of shops) await checkCommon(shop, [undefined, ...new Set(SORTS)])
}

interface OpenWalk {
  address?: string
  next(): Promise<boolean>
}

class Runner {
  private readonly shops: readonly Shop[]
  private readonly random: Random
  private readonly walks: OpenWalk[] = []
  /** The address of the list that is read. */
  doing = ''

  constructor(shops: readonly Shop[], random: Random) {
    this.shops = shops
    this.random = random
  }

  async run(kind: Kind, company: number): Promise<void> {
    const { random } = this
    const [shop] = this.shops.slice(company)
    if (!shop) throw new Error('There is no such company.')
    this.doing = ''
    if (kind === 'continueWalk') {
      const [walk] = this.walks.splice(random.between(0, this.walks.length - 1), 1)
      if (walk) await this.walk(walk)
    } else if (WALKS[kind]) await this.walk(WALKS[kind](shop, random, this.shops))
    else await WRITES[kind]?.(shop, random)
  }

  /** Walks on through every list that is open, to its end. */
  async finish(): Promise<void> {
    for (const walk of this.walks.splice(0)) {
      for (let pages = 0; pages < 10 && (await walk.next()); pages++) this.doing = walk.address ?? ''
    }
  }

  private async walk(walk: OpenWalk): Promise<void> {
    this.doing = walk.address ?? ''
    if (!(await walk.next())) return
    this.walks.push(walk)
    if (this.walks.length > MAX_WALKS) this.walks.shift()
  }
}
