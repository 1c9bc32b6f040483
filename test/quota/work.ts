import { env } from 'cloudflare:workers'
import type { RequestContext } from '../../src/kernel/api/context.ts'
import { openDatabase } from '../../src/kernel/db/client.ts'
import { runWrite, runWrites, type Write } from '../../src/kernel/db/idempotency.ts'
import { databaseFor } from '../../src/kernel/db/placement.ts'
import { removeExpiredRows } from '../../src/kernel/db/sweep.ts'
import { ApiError } from '../../src/kernel/http/errors.ts'
import {
  changeOf as changeClient,
  creationOf as createClient,
  replacementOf as putClient,
} from '../../src/resources/clients/queries.ts'
import { contextDeletionOf, replacementOf as putContext } from '../../src/resources/mail/context-queries.ts'
import { paymentOf } from '../../src/resources/orders/payment-queries.ts'
import { changeOf as changeOrder, creationOf as createOrder } from '../../src/resources/orders/write-queries.ts'
import { type Home, sqlIn } from '../support/app.ts'
import { createRandom, type Random } from '../support/random.ts'
import { connectAccounting, mintPair } from './support.ts'

const WORDS =
  'cotton hoodie harbor club print front back logo screen navy heather large youth polo sleeve rush sample proof vector artwork pantone ridge custom apparel river school coach summer league design approved ÄÖÜ 日本語'.split(
    ' ',
  )

/** Words, of so many characters. */
export function textOf(random: Random, length: number): string {
  let text = ''
  while (text.length < length) text += `${random.pick(WORDS)}${random.chance(0.3) ? random.between(1, 999) : ''} `
  return text.slice(0, Math.max(1, length)).trim() || 'x'
}

/** What a handler of the API knows of a request of a company, without a token's limits. */
export function contextOf(companyId: number, home: Home, random: Random, now: number): RequestContext {
  const key = { key: random.hex(32), fingerprint: random.hex(64), position: 0, isReplayed: false }
  const nothing = () => undefined
  return {
    companyId,
    now,
    db: databaseFor(env, { companyId, database: home }),
    requestId: random.hex(32),
    token: { id: random.between(1, 3), companyId },
    ifMatch: null,
    ifNoneMatch: null,
    idempotency: random.chance(0.4) ? key : null,
    deliverAccounting: nothing,
    announceChange: nothing,
    waitUntil: nothing,
  } as unknown as RequestContext
}

/** Work of a company with an accounting system, behind that of a look-alike. */
export async function openWorks(seed: number, now: number): Promise<[look: Work, work: Work]> {
  const { other, company } = await mintPair()
  await connectAccounting([other, company])
  return [new Work(other.id, createRandom(seed), now), new Work(company.id, createRandom(seed + 1), now)]
}

/** Writes of one company chosen at random, each through what the routes call. */
export class Work {
  readonly companyId: number
  private readonly random: Random
  private readonly clients: number[] = []
  private readonly orders: number[] = []
  private readonly payments: [order: number, id: number][] = []
  private readonly contexts: string[] = []
  now: number
  home: Home = 'DB'

  constructor(companyId: number, random: Random, now: number) {
    this.companyId = companyId
    this.random = random
    this.now = now
  }

  /** Rows of triggers, deliveries and imports, which no request writes. */
  private async background(): Promise<void> {
    const { random, companyId, home } = this
    const state = random.pick(['sent', 'done', 'dead', 'pending'])
    const text = textOf(random, random.between(1, 900))
    const statements: (() => [text: string, ...params: unknown[]])[] = [
      () => [
        `UPDATE accounting_outbox SET state = ?2, request_body = iif(?2 = 'sent', ?3, NULL), updated_at = ?4 WHERE company_id = ?1 AND id % 3 = 0`,
        ...[state, text, this.now],
      ],
      () => [
        `INSERT INTO accounting_links (company_id, order_id, external_id, synced_at) SELECT company_id, id, ?2, 0 FROM orders WHERE company_id = ?1 AND id % 5 = 0
          ON CONFLICT DO UPDATE SET external_id = excluded.external_id`,
        text.slice(0, 9),
      ],
      () => ['DELETE FROM accounting_links WHERE company_id = ?1 AND order_id % 10 = 0'],
      () => [
        `INSERT INTO catalog_items (company_id, id, title, search_text) VALUES (?1, ?2, ?3, upper(?3))
          ON CONFLICT DO UPDATE SET title = excluded.title, search_text = excluded.search_text, deleted = 1 - deleted`,
        ...[random.between(1, 50), text.slice(0, 200)],
      ],
      () => ['UPDATE clients SET accounting_customer_id = ?2 WHERE company_id = ?1 AND id % 4 = 0', text.slice(0, 20)],
    ]
    const statement = random.pick([...statements, null])
    if (statement === null) return void (await removeExpiredRows(openDatabase(env[home]), this.now))
    const [sql, ...params] = statement()
    const guarded = "SELECT 1 FROM company_guards WHERE company_id = ?1 AND state IN ('read_only', 'moved')"
    // Writes of the service begin with this check.
    if ((await sqlIn(home, guarded, companyId)).length === 0) await sqlIn(home, sql, companyId, ...params)
  }

  /** Small writes of clients and orders in one batch. @returns how many were carried out */
  async batch(count: number): Promise<number> {
    const { random } = this
    this.now += random.pick([1_000, 50_000, 3_600_000])
    const context = contextOf(this.companyId, this.home, random, this.now)
    const name = () => textOf(random, random.pick([3, 8, 15]))
    const builds = Array.from({ length: count }, () => {
      const client = random.pick([0, ...this.clients.slice(-500)])
      const order = random.pick([0, ...this.orders.slice(-500)])
      const kind = random.between(0, 5)
      return (own: RequestContext): Write<unknown> => {
        if (kind === 0) return createClient(own, { company_name: name() })
        if (kind === 1) return changeClient(own, { clientId: client }, { deleted: true })
        if (kind === 2) return putClient(own, `b-${random.between(1, 300)}`, { company_name: name() })
        if (kind === 3) return changeOrder(own, order, { title: name(), client_notes: name() })
        if (kind === 4) return changeOrder(own, order, { deleted: true })
        return changeClient(own, { clientId: client }, { deleted: false, website: name() })
      }
    })
    const outcomes = await runWrites(
      context,
      builds.map((build) => ({ build })),
    )
    return outcomes.filter((outcome) => 'value' in outcome).length
  }

  /** One write. It may be refused. @returns whether it was carried out */
  async step(): Promise<boolean> {
    const { random } = this
    this.now += random.pick([1_000, 50_000, 90_000, 3_600_000, 30 * 3_600_000, 20 * 86_400_000])
    const context = contextOf(this.companyId, this.home, random, this.now)
    const run = <T>(one: Write<T>) => runWrite(context, one)
    const long = () => random.pick([0, 5, 20, 40, 250, 900])
    const text = (max = 255) => textOf(random, Math.min(long(), max) + 1)
    const [client, order] = [random.pick([0, ...this.clients]), random.pick([0, ...this.orders])]
    const fields = { email: `a${random.between(1, 99)}@x.example`, phone: '(555) 010-0199', website: text() }
    const createOne = async () => {
      const described = { title: text(), client_id: client, description: text(5_000), accounting_sync_enabled: true }
      this.orders.push((await run(createOrder(context, described)))?.row.id ?? 0)
    }
    const changeLines = async () => {
      const goods = { supplier: null, style: null, color: null, size: null, sku: null }
      const invoice_items = Array.from({ length: random.between(0, 6) }, () => {
        return { title: text(), description: text(5_000), quantity: 1, unit_price: 2, taxable: true, ...goods }
      })
      await run(changeOrder(context, order, { invoice_items } as unknown as Parameters<typeof changeOrder>[2]))
    }
    const putOneContext = async () => {
      const legacy = `t${random.between(1, 30)}`
      this.contexts.push(legacy)
      const participants_data = Array.from({ length: random.between(0, 3) }, () => ({ text: text(5_000) }))
      const orders_data = this.orders.slice(0, random.between(0, 4)).map((id) => ({ id }))
      // The contract refuses one that links to nothing.
      if (!client && orders_data.length === 0) return false
      const body = { client_id: client || null, orders_data, participants_data }
      return run(putContext(context, legacy, body as Parameters<typeof putContext>[2]))
    }
    const write = random.pick<() => Promise<unknown>>([
      async () => this.clients.push((await run(createClient(context, { company_name: text(), ...fields }))).id),
      () => {
        const change = random.chance(0.3) ? { deleted: random.chance(0.6) } : fields
        return run(changeClient(context, { clientId: client }, change))
      },
      () => run(putClient(context, `shop-${random.between(1, 20)}`, { company_name: text(), first_name: text() })),
      createOne,
      createOne,
      () => run(changeOrder(context, order, { title: text(), client_notes: text(5_000), deadline: '2027-01-01' })),
      changeLines,
      changeLines,
      async () => {
        const input = { params: { id: order }, body: { amount: 5, note: text() } }
        this.payments.push([order, (await run(paymentOf(context, 'create', input))).payment.id])
      },
      () => {
        const [id, payment_id] = random.pick<[number, number]>([[0, 0], ...this.payments])
        return run(paymentOf(context, 'delete', { params: { id, payment_id } }))
      },
      putOneContext,
      () =>
        random.chance(0.5)
          ? run(contextDeletionOf(context, random.pick(['t0', ...this.contexts])))
          : run(changeOrder(context, order, { deleted: true })),
      () => this.background(),
    ])
    try {
      return (await write()) !== false
    } catch (error) {
      if (error instanceof ApiError) return false
      throw error
    }
  }
}
