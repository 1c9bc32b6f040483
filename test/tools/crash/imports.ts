import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { readDevVars } from '../../../src/cli/local-runtime.ts'
import { type SeedInput, seedFile } from '../../../src/operation/copies/seed/file.ts'
import { countFile } from '../../../src/operation/copies/seed/load.ts'
import { splitSeedFile } from '../../../src/operation/copies/seed/split.ts'
import { createRandom } from '../../support/random.ts'
import { select } from './read-state.ts'
import { type Service, startService } from './service.ts'
import { openShop, type Shop } from './shop.ts'

type SeedPart = ReturnType<typeof splitSeedFile>['parts'][number]

const COMPANY = 9
const KILL_AFTER_MS = [50, 700] as const
/** A request that hangs longer after a kill counts as left without a response. */
const PATIENCE_MS = 10_000
const RETRY_MS = 100

/** Where a seed file's rows are. */
const TABLES = {
  order_statuses: 'order_statuses',
  taxes: 'taxes',
  clients: 'clients',
  orders: 'orders',
  invoices: 'invoices',
  items: 'invoice_items',
  payments: 'payments',
} as const

interface ImportFigures {
  /** Kills of the runtime. */
  kills: number
  parts: number
  /** Requests with a part, also those without a response. */
  sent: number
  /** Times that the import went on behind a part that was loaded before. */
  resumed: number
  /** What was found wrong. */
  findings: string[]
}

/**
 * Imports a file in parts while the service is killed again and again, and resumes it after each kill. After each, the
 * rows must be those of whole parts; in the end, those of the file, also after it was imported once more.
 */
export async function crashImport({ seed, orders }: { seed: number; orders: number }): Promise<ImportFigures> {
  const random = createRandom(seed)
  const shop = await openShop()
  let service: Service | undefined
  try {
    service = await startService(shop.state)
    const { url } = service
    const token = shop.tokens[0] ?? ''
    await service.waitUntilServing(token)
    const file = makeFile(orders)
    const { hash, parts } = splitSeedFile(file)
    const figures: ImportFigures = { kills: 0, parts: parts.length, sent: 0, resumed: 0, findings: [] }
    let isDone = false
    const importing = importAll(`${url}/admin/v1/companies/${COMPANY}/imports`, hash, parts, figures).finally(() => {
      isDone = true
    })
    while (!isDone) {
      await sleep(random.between(...KILL_AFTER_MS))
      if (isDone) break
      service.kill('workerd')
      figures.kills++
      figures.findings.push(...checkParts(await readRows(shop), parts))
      await service.waitUntilServing(token)
    }
    await importing
    const loaded = await readRows(shop)
    const wanted = JSON.stringify(countOf([{ file, known: {} }]))
    if (JSON.stringify(loaded.counts) !== wanted) {
      figures.findings.push(`${JSON.stringify(loaded.counts)} rows instead of ${wanted}`)
    }
    await importAll(`${url}/admin/v1/companies/${COMPANY}/imports`, hash, parts, { ...figures })
    const again = await readRows(shop)
    if (again.text !== loaded.text) figures.findings.push('The second import of the same file changed rows.')
    return figures
  } finally {
    await service?.stop()
    await shop.close()
  }
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

/** Sends the parts, and after a failure goes on where the service says. */
async function importAll(url: string, hash: string, parts: SeedPart[], figures: ImportFigures): Promise<void> {
  const headers = { authorization: `Bearer ${readDevVars().ADMIN_TOKEN}`, 'content-type': 'application/json' }
  const request = async (path: string, init: RequestInit = {}) => {
    try {
      const response = await fetch(url + path, { headers, signal: AbortSignal.timeout(PATIENCE_MS), ...init })
      return { status: response.status, body: JSON.parse(await response.text()) }
    } catch {
      // Without a response: whether it was carried out is unknown.
      return null
    }
  }
  let part = 1
  while (part <= parts.length) {
    figures.sent++
    const body = JSON.stringify({ hash, part, parts: parts.length, ...parts[part - 1] })
    const sent = await request('', { method: 'POST', body })
    if (sent?.status === 200) {
      part += 1
      continue
    }
    if (sent && sent.status < 500) throw new Error(`${sent.status} ${JSON.stringify(sent.body).slice(0, 300)}`)
    await sleep(RETRY_MS)
    const progress = await request(`/${hash}`)
    if (progress?.status !== 200) continue
    part = progress.body.next_part ?? parts.length + 1
    figures.resumed++
  }
}

type Counts = Record<keyof typeof TABLES, number>

/** The rows of parts together. */
function countOf(parts: SeedPart[]): Counts {
  const counts = parts.map(({ file }) => countFile(seedFile.parse(file)))
  const sum = (name: keyof typeof TABLES) => counts.reduce((total, each) => total + (each[name] ?? 0), 0)
  return Object.fromEntries(Object.keys(TABLES).map((name) => [name, sum(name as keyof typeof TABLES)])) as Counts
}

interface StoredRows {
  nextPart: number
  counts: Counts
  /** All rows, for comparison. */
  text: string
}

/** Whether exactly the parts before the next one are there. */
function checkParts({ nextPart, counts }: StoredRows, parts: SeedPart[]): string[] {
  const wanted = JSON.stringify(countOf(parts.slice(0, nextPart - 1)))
  const found = JSON.stringify(counts)
  return found === wanted ? [] : [`Before part ${nextPart}: ${found} rows instead of ${wanted}`]
}

async function readRows(shop: Shop): Promise<StoredRows> {
  const db = new DatabaseSync(await shop.copyDatabase(), { readOnly: true })
  try {
    const [progress] = select<{ next_part: number }>(db, `SELECT next_part FROM imports WHERE company_id = ${COMPANY}`)
    const rows = Object.entries(TABLES).map(([name, table]) => {
      return [name, select<object>(db, `SELECT * FROM ${table} WHERE company_id = ${COMPANY}`)] as const
    })
    const counts = Object.fromEntries(rows.map(([name, found]) => [name, found.length])) as Counts
    return { nextPart: progress?.next_part ?? 1, counts, text: JSON.stringify(rows) }
  } finally {
    db.close()
  }
}
