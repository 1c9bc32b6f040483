import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { readDevVars } from '../../../src/cli/local-runtime.ts'
import { splitSeedFile } from '../../../src/cli/split-file.ts'
import { type SeedInput, seedFile } from '../../../src/operation/copies/seed/file.ts'
import { countFile } from '../../../src/operation/copies/seed/load.ts'
import { createRandom } from '../../support/random.ts'
import { type Answer, ask } from '../harness/http.ts'
import { differences, select } from './rows.ts'
import { killUntilDone, type Service, type Shop, withService } from './shop.ts'

const CALLERS = 8
/** A request that hangs longer after a kill counts as left without a response. */
const PATIENCE_MS = 10_000
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
    const kills = await killUntilDone([shop, service], random, callers)
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
    if (![409, 429].includes(answer.status)) expectNone(answer)
    await sleep(RETRY_MS)
  }
}

/** @throws Error for a response that is neither a success nor a failure of the service */
function expectNone({ status, body }: Answer): void {
  if (status > 0 && status < 500) throw new Error(`${status} ${JSON.stringify(body).slice(0, 300)}`)
}

async function countRows(shop: Shop): Promise<number> {
  using db = new DatabaseSync(await shop.copyDatabase(), { readOnly: true })
  const count = 'SELECT (SELECT count(*) FROM clients) + (SELECT count(*) FROM orders) AS count'
  return select<{ count: number }>(db, count)[0]?.count ?? 0
}

type SeedFile = ReturnType<typeof splitSeedFile>
type SeedPart = SeedFile['parts'][number]

const COMPANY = 9

/** The lists of a seed file. Each is stored in the table of its name, `items` in `invoice_items`. */
const ROWS = ['order_statuses', 'taxes', 'clients', 'orders', 'invoices', 'items', 'payments'] as const

/**
 * Imports a file in parts while the service is killed again and again, and resumes it after each kill. After each, the
 * rows must be those of whole parts; in the end, those of the file, also after it was imported once more.
 */
export function crashImport({ seed, orders }: { seed: number; orders: number }) {
  const random = createRandom(seed)
  return withService(async (shop, service) => {
    const whole = makeFile(orders)
    const file = splitSeedFile(whole)
    const { parts } = file
    const findings: string[] = []
    const importing = importAll(service, file)
    const kills = await killUntilDone([shop, service], random, importing, async () => {
      const { nextPart, counts } = await readRows(shop)
      findings.push(...differences(`before part ${nextPart}: rows`, counts, countOf(parts.slice(0, nextPart - 1))))
    })
    const loaded = await readRows(shop)
    findings.push(...differences('in the end: rows', loaded.counts, countOf([{ file: whole, known: {} }])))
    await importAll(service, file)
    const again = await readRows(shop)
    if (again.text !== loaded.text) findings.push('The second import of the same file changed rows.')
    return { kills, parts: parts.length, ...(await importing), findings }
  })
}

function makeFile(orders: number): SeedInput {
  const ids = Array.from({ length: orders }, (_, index) => index + 1)
  return {
    company: { id: COMPANY, name: 'Imported' },
    order_statuses: [{ id: 1, title: 'New', is_default: true }],
    taxes: [{ id: 1, name: 'State', rate: 8.25 }],
    clients: ids.map((id) => ({ id, company_name: `Client ${id}` })),
    orders: ids.map((id) => ({
      id,
      title: `Order ${id}`,
      client_id: id,
      order_status_id: 1,
      invoice: {
        id,
        ...(id % 2 === 0 && { number: String(10_000 + id) }),
        tax_id: 1,
        items: [{ id, title: 'Tee', quantity: 12, unit_price: 9.5 }],
        payments: [{ id, amount: 1.5 }],
      },
    })),
  }
}

/**
 * Sends the parts, and after a failure goes on where the service says.
 *
 * @returns how many requests had a part, also those without a response, and how often it went on behind a part that was
 *   loaded before
 */
async function importAll(service: Service, { hash, parts }: SeedFile) {
  const figures = { sent: 0, resumed: 0 }
  const request = (method: string, path: string, body?: object) => {
    const address = `/admin/v1/companies/${COMPANY}/imports${path}`
    return ask(service, readDevVars().ADMIN_TOKEN ?? '', method, address, { body, timeoutMs: PATIENCE_MS })
  }
  let part = 1
  while (part <= parts.length) {
    figures.sent++
    const sent = await request('POST', '', { hash, part, parts: parts.length, ...parts[part - 1] })
    if (sent.status === 200) {
      part += 1
      continue
    }
    expectNone(sent)
    await sleep(RETRY_MS)
    const progress = await request('GET', `/${hash}`)
    if (progress.status !== 200) continue
    part = progress.body.next_part ?? parts.length + 1
    figures.resumed++
  }
  return figures
}

function countOf(parts: SeedPart[]) {
  const counts = parts.map(({ file }) => countFile(seedFile.parse(file)))
  return Object.fromEntries(ROWS.map((name) => [name, counts.reduce((sum, each) => sum + (each[name] ?? 0), 0)]))
}

/** The rows that are stored: how many, and all of them as text. */
async function readRows(shop: Shop) {
  using db = new DatabaseSync(await shop.copyDatabase(), { readOnly: true })
  const [progress] = select<{ next_part: number }>(db, `SELECT next_part FROM imports WHERE company_id = ${COMPANY}`)
  const rows = ROWS.map((name): [string, object[]] => {
    const table = name === 'items' ? 'invoice_items' : name
    return [name, select(db, `SELECT * FROM ${table} WHERE company_id = ${COMPANY}`)]
  })
  const counts = Object.fromEntries(rows.map(([name, found]) => [name, found.length]))
  return { nextPart: progress?.next_part ?? 1, counts, text: JSON.stringify(rows) }
}
