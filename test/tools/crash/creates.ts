import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { createRandom } from '../../support/random.ts'
import { select } from './read-state.ts'
import { type Service, startService } from './service.ts'
import { openShop, type Shop } from './shop.ts'

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
export async function crashCreates({ seed, creates }: { seed: number; creates: number }) {
  const random = createRandom(seed)
  const shop = await openShop()
  let service: Service | undefined
  try {
    const before = await countRows(shop)
    service = await startService(shop.state)
    await service.waitUntilServing(shop.tokens[0] ?? '')
    // Requests that were sent, with the repeated ones; responses that were those of an earlier request with the same key.
    const figures = { kills: 0, sent: 0, replayed: 0 }
    const ids = new Set<string>()
    const { url } = service
    let next = 0
    let open = creates
    const create = async () => {
      for (let number = next++; number < creates; number = next++) {
        ids.add(await createUntilAnswered(url, shop.tokens[number % shop.tokens.length] ?? '', number, figures))
        open--
      }
    }
    const callers = Promise.all(Array.from({ length: CALLERS }, create))
    while (open > 0) {
      await sleep(random.between(...KILL_AFTER_MS))
      if (open === 0) break
      service.kill('workerd')
      figures.kills++
      await service.waitUntilServing(shop.tokens.at(-1) ?? '')
    }
    await callers
    return { ...figures, rows: (await countRows(shop)) - before, ids: ids.size }
  } finally {
    await service?.stop()
    await shop.close()
  }
}

/** Sends one creation with its key until there is a response, and returns the name of what it created. */
async function createUntilAnswered(
  url: string,
  token: string,
  number: number,
  figures: { sent: number; replayed: number },
): Promise<string> {
  const [path, body] =
    number % 2 === 0 ? ['clients', { company_name: `C${number}` }] : ['orders', { title: `O${number}`, client_id: 1 }]
  for (;;) {
    figures.sent++
    try {
      const response = await fetch(`${url}/api/v1/${path}`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${token}`,
          'content-type': 'application/json',
          'idempotency-key': `create-${number}`,
        },
        signal: AbortSignal.timeout(PATIENCE_MS),
        body: JSON.stringify(body),
      })
      const text = await response.text()
      if (response.status === 200) {
        if (response.headers.has('idempotency-replayed')) figures.replayed++
        const { client, project } = JSON.parse(text)
        return `${path} ${path === 'clients' ? client.id : project.id}`
      }
      if (response.status < 500 && ![409, 429].includes(response.status)) {
        throw new TypeError(`${response.status} ${text.slice(0, 300)}`, { cause: 'refused' })
      }
    } catch (error) {
      if (error instanceof Error && error.cause === 'refused') throw error
      // Without a response: whether it was carried out is unknown.
    }
    await sleep(RETRY_MS)
  }
}

async function countRows(shop: Shop): Promise<number> {
  const db = new DatabaseSync(await shop.copyDatabase(), { readOnly: true })
  try {
    const [row] = select<{ count: number }>(
      db,
      'SELECT (SELECT count(*) FROM clients) + (SELECT count(*) FROM orders) AS count',
    )
    return row?.count ?? 0
  } finally {
    db.close()
  }
}
