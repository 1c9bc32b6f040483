import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { createRandom } from '../../support/random.ts'
import { ask } from '../harness/ask.ts'
import { killUntilDone, withService } from './kills.ts'
import { select } from './read-state.ts'
import type { Service } from './service.ts'
import type { Shop } from './shop.ts'

const CALLERS = 8
const KILL_AFTER_MS = [150, 900] as const
/** A request that hangs longer after a kill counts as left without a response. */
const PATIENCE_MS = 5_000
const RETRY_MS = 100

/**
 * Creates clients and orders in turn, each with a key and sent until it is answered, while the service is killed again
 * and again until all are. The rows that were created and the ids of the responses are equal where nothing was lost or
 * made twice.
 */
export function crashCreates({ seed, creates }: { seed: number; creates: number }) {
  const random = createRandom(seed)
  return withService(async (shop, service) => {
    const before = await countRows(shop)
    // Requests that were sent, with the repeated ones; responses that were those of an earlier request with the same key.
    const figures = { sent: 0, replayed: 0 }
    const ids = new Set<string>()
    let next = 0
    const create = async () => {
      for (let number = next++; number < creates; number = next++) {
        ids.add(await createUntilAnswered(service, shop.tokens[number % shop.tokens.length] ?? '', number, figures))
      }
    }
    const callers = Promise.all(Array.from({ length: CALLERS }, create))
    const kills = await killUntilDone([shop, service], () => random.between(...KILL_AFTER_MS), callers)
    return { kills, ...figures, rows: (await countRows(shop)) - before, ids: ids.size }
  })
}

/** Sends one creation with its key until there is a response, and returns the name of what it created. */
async function createUntilAnswered(
  service: Service,
  token: string,
  number: number,
  figures: { sent: number; replayed: number },
): Promise<string> {
  const [path, body] =
    number % 2 === 0 ? ['clients', { company_name: `C${number}` }] : ['orders', { title: `O${number}`, client_id: 1 }]
  const headers = { 'idempotency-key': `create-${number}` }
  for (;;) {
    figures.sent++
    const answer = await ask(service, token, 'POST', `/api/v1/${path}`, { body, headers, timeoutMs: PATIENCE_MS })
    if (answer.status === 200) {
      if (answer.headers.has('idempotency-replayed')) figures.replayed++
      // The response to an order has its client, too.
      return `${path} ${(answer.body.project ?? answer.body.client).id}`
    }
    // Without a response, whether it was carried out is unknown.
    if (answer.status > 0 && answer.status < 500 && ![409, 429].includes(answer.status)) {
      throw new Error(`${answer.status} ${JSON.stringify(answer.body).slice(0, 300)}`)
    }
    await sleep(RETRY_MS)
  }
}

async function countRows(shop: Shop): Promise<number> {
  const db = new DatabaseSync(await shop.copyDatabase(), { readOnly: true })
  const count = 'SELECT (SELECT count(*) FROM clients) + (SELECT count(*) FROM orders) AS count'
  const [row] = select<{ count: number }>(db, count)
  db.close()
  return row?.count ?? 0
}
