import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fillState, inDirectory } from '../harness/state.ts'
import { fillCompany } from './company.ts'
import { bearer, median } from './load.ts'
import { buildWorker, type Running, startApi, startBare } from './worker.ts'

/*
 * The database time of every write with the worst body of at most 1 MiB, beside a floor write of the same run. The company
 * under test is not the first of its database: a larger one has the same ids.
 */
const LOOKALIKE_CLIENTS = 20_000
const TOKENS = 200
const FLOOR_WRITES = 15
/** So often each write is repeated, each time with other texts. */
const TIMES = 3

/** How many times a floor write a request of at most 1 MiB may hold the database. */
const TARGET = 60
/** Longer bodies are measured, and not held to it. */
const BODY_BYTES = 1_048_576

/** Texts of which every three characters are others, of one and of three bytes each; and of characters that grow when folded. */
const ALPHABETS = {
  ascii: Array.from({ length: 94 }, (_, n) => String.fromCodePoint(33 + n)).filter((one) => !'"\\'.includes(one)),
  cjk: Array.from({ length: 20_000 }, (_, n) => String.fromCodePoint(0x4e00 + n)),
  ligatures: [...'ﬃﬄﬀﬁﬂﬅŉǰΐΰևẖẗẘẙẚßὒ'],
}
type Alphabet = keyof typeof ALPHABETS

function textOf(alphabet: Alphabet, length: number): string {
  const list = ALPHABETS[alphabet]
  return Array.from({ length }, () => list[Math.floor(Math.random() * list.length)]).join('')
}

interface Write {
  name: string
  method: string
  path: string
  body: unknown
}

/** Sends a request outside of the measurement and gives its body. */
type Ask = (method: string, path: string, body: unknown) => Promise<Record<string, never>>

/** Makes the next write of a kind, each time with other texts. */
type Shape = (text: (length: number) => string, ask: Ask) => Promise<Omit<Write, 'name'>>

const clientOf = (text: (length: number) => string) => ({
  company_name: text(255),
  first_name: text(255),
  last_name: text(255),
  phone: text(255),
  website: text(255),
  tax_exempt_reason: text(1_000),
})
const orderOf = (text: (length: number) => string) => ({
  title: text(255),
  description: text(10_000),
  client_notes: text(10_000),
  tax_exempt_reason: text(1_000),
})
/** The lists of a whole order, as many as a body may have. */
const wholeOf = (text: (length: number) => string) => ({
  invoice_items: fitting(500, 250_000, () => ({ title: text(255), description: text(200) })),
  payments: fitting(100, 50_000, () => ({ amount: 1, note: text(500) })),
})
const externalId = () => `own-${Math.random().toString(36).slice(2)}`
const bytesOf = (body: unknown) => Buffer.byteLength(JSON.stringify(body))

/** As many elements of at most `count` as fit into `limit` bytes. */
function fitting<T>(count: number, limit: number, make: () => T): T[] {
  const list: T[] = []
  for (let bytes = 100; list.length < count; ) {
    const next = make()
    bytes += bytesOf(next) + 1
    if (bytes > limit) break
    list.push(next)
  }
  return list
}

type OrderBody = { project: { id: number }; invoice_items: { id: number }[] }
type ClientBody = { client: { id: number } }

async function newClient(ask: Ask): Promise<number> {
  const { client } = (await ask('POST', '/clients', { company_name: 'Worst' })) as unknown as ClientBody
  return client.id
}

async function newOrder(ask: Ask): Promise<number> {
  const client_id = await newClient(ask)
  const { project } = (await ask('POST', '/orders', { title: 'Worst', client_id })) as unknown as OrderBody
  return project.id
}

const itemsLimit = 399_000
/** All lines of one invoice, of so many characters each. */
const lines = (count: number, title: number, description: number, others = 0): Shape => {
  let order: number | undefined
  return async (text, ask) => {
    order ??= await newOrder(ask)
    const other = others ? { supplier: text(others), style: text(others), color: text(others), size: text(others) } : {}
    const items = fitting(count, itemsLimit, () => ({ title: text(title), description: text(description), ...other }))
    return { method: 'PUT', path: `/orders/${order}/invoice-items`, body: { items } }
  }
}
/** The same lines with their ids and other texts. */
const changedLines = (count: number, title: number, description: number): Shape => {
  const fill = lines(count, title, description)
  return async (text, ask) => {
    const { path, body } = await fill(text, ask)
    const { invoice_items } = (await ask('PUT', path, body)) as unknown as OrderBody
    let at = 0
    const items = fitting(invoice_items.length, itemsLimit, () => ({
      id: invoice_items[at++]?.id,
      title: text(title),
      description: text(description),
    }))
    return { method: 'PUT', path, body: { items } }
  }
}

type Operation = { method: string; path: string; body: unknown; if_match?: string }
const batch = (make: (text: (length: number) => string, ask: Ask) => Promise<() => Operation>): Shape => {
  let next: (() => Operation) | undefined
  return async (text, ask) => {
    next = await make(text, ask)
    return { method: 'POST', path: '/batch', body: { operations: fitting(100, BODY_BYTES - 100, next) } }
  }
}

/** Refuses every second operation of a batch, so that the others are repeated without it. */
const everySecond = () => {
  let count = 0
  return () => (count++ % 2 === 0 ? { if_match: '"999999"' } : {})
}

const messages = (bytes: number, text: (length: number) => string) => {
  const body_plain = text(1_000)
  const one = { body_plain, body_html: body_plain }
  return fitting(100_000, bytes, () => ({ ...one, id: Math.random().toString(36) }))
}
const emailThread = (bytes: number): Shape => {
  return async (text) => ({
    method: 'PUT',
    path: '/mail/email-threads/00000000000000ab',
    body: { account_email: 'shop@mail.example', messages: messages(bytes, text) },
  })
}

const SHAPES: Record<string, Shape> = {
  createClient: async (text) => ({ method: 'POST', path: '/clients', body: clientOf(text) }),
  updateClient: async (text, ask) => ({
    method: 'PATCH',
    path: `/clients/${await newClient(ask)}`,
    body: clientOf(text),
  }),
  'putClient, new': async (text) => ({
    method: 'PUT',
    path: `/clients/by-external-id/${externalId()}`,
    body: clientOf(text),
  }),
  'putClient, replaced': async (text, ask) => {
    const path = `/clients/by-external-id/${externalId()}`
    await ask('PUT', path, clientOf(text))
    return { method: 'PUT', path, body: clientOf(text) }
  },
  'deleteClient, of 100 orders': async (text, ask) => {
    const { client } = (await ask('POST', '/clients', clientOf(text))) as unknown as ClientBody
    for (let n = 0; n < 100; n++) await ask('POST', '/orders', { title: text(255), client_id: client.id })
    return { method: 'DELETE', path: `/clients/${client.id}`, body: undefined }
  },
  'putOrder, new': async (text, ask) => ({
    method: 'PUT',
    path: `/orders/by-external-id/${externalId()}`,
    body: { client_id: await newClient(ask), ...orderOf(text), ...wholeOf(text) },
  }),
  'putOrder, replaced': async (text, ask) => {
    const path = `/orders/by-external-id/${externalId()}`
    const client_id = await newClient(ask)
    await ask('PUT', path, { client_id, ...orderOf(text), ...wholeOf(text) })
    return { method: 'PUT', path, body: { client_id, ...orderOf(text), ...wholeOf(text) } }
  },
  createOrder: async (text, ask) => ({
    method: 'POST',
    path: '/orders',
    body: { client_id: await newClient(ask), ...orderOf(text) },
  }),
  updateOrder: async (text, ask) => ({ method: 'PATCH', path: `/orders/${await newOrder(ask)}`, body: orderOf(text) }),
  'deleteOrder, 500 lines': async (text, ask) => {
    const { path, body } = await lines(500, 255, 100)(text, ask)
    await ask('PUT', path, body)
    return { method: 'DELETE', path: path.replace('/invoice-items', ''), body: undefined }
  },
  'putInvoiceItems, 39 of 10,000': lines(39, 255, 9_740),
  'putInvoiceItems, 500 of 700': lines(500, 255, 430),
  'putInvoiceItems, 500 of 455': lines(500, 255, 200),
  'putInvoiceItems, 500 of 200': lines(500, 1, 200, 100),
  'putInvoiceItems, 39 changed': changedLines(39, 255, 9_700),
  'putInvoiceItems, 500 changed': changedLines(500, 255, 200),
  'putInvoiceItems, 500 the same': async (text, ask) => {
    const { path, body } = await changedLines(500, 255, 200)(text, ask)
    await ask('PUT', path, body)
    return { method: 'PUT', path, body }
  },
  'putInvoiceItems, 500 removed': async (text, ask) => {
    const { path, body } = await lines(500, 255, 200)(text, ask)
    await ask('PUT', path, body)
    return { method: 'PUT', path, body: { items: [] } }
  },
  createPayment: async (text, ask) => ({
    method: 'POST',
    path: `/orders/${await newOrder(ask)}/payments`,
    body: { amount: 1, method: text(255), note: text(10_000) },
  }),
  updatePayment: async (text, ask) => {
    const path = `/orders/${await newOrder(ask)}/payments`
    const { payment } = await ask('POST', path, { amount: 1, note: text(10_000) })
    const { id } = payment as unknown as { id: number }
    return { method: 'PATCH', path: `${path}/${id}`, body: { method: text(255), note: text(10_000) } }
  },
  deletePayment: async (text, ask) => {
    const path = `/orders/${await newOrder(ask)}/payments`
    const { payment } = await ask('POST', path, { amount: 1, note: text(10_000) })
    return { method: 'DELETE', path: `${path}/${(payment as unknown as { id: number }).id}`, body: undefined }
  },
  'runBatch, new clients': batch(async (text) => () => ({ method: 'POST', path: '/clients', body: clientOf(text) })),
  'runBatch, one client': batch(async (text, ask) => {
    const path = `/clients/${await newClient(ask)}`
    return () => ({ method: 'PATCH', path, body: clientOf(text) })
  }),
  'runBatch, clients, half refused': batch(async (text, ask) => {
    const path = `/clients/${await newClient(ask)}`
    const refused = everySecond()
    return () => ({ method: 'PATCH', path, body: clientOf(text), ...refused() })
  }),
  'runBatch, own ids': batch(async (text) => () => ({
    method: 'PUT',
    path: `/clients/by-external-id/${externalId()}`,
    body: clientOf(text),
  })),
  'runBatch, new orders': batch(async (text, ask) => {
    const client_id = await newClient(ask)
    return () => ({ method: 'POST', path: '/orders', body: { client_id, ...orderOf(text) } })
  }),
  'runBatch, one order': batch(async (text, ask) => {
    const path = `/orders/${await newOrder(ask)}`
    return () => ({ method: 'PATCH', path, body: orderOf(text) })
  }),
  'runBatch, orders, half refused': batch(async (text, ask) => {
    const path = `/orders/${await newOrder(ask)}`
    const refused = everySecond()
    return () => ({ method: 'PATCH', path, body: { title: text(255) }, ...refused() })
  }),
  putThreadContext: async (text, ask) => ({
    method: 'PUT',
    path: '/mail/threads/00000000000000ab',
    body: {
      client_id: await newClient(ask),
      clients_data: fitting(100, 100_000, () => ({ name: text(300) })),
      participants_data: fitting(100, 150_000, () => ({ name: text(300) })),
    },
  }),
  'putThreadContext, 100 orders': async (_text, ask) => {
    const ids: number[] = []
    for (let n = 0; n < 100; n++) ids.push(await newOrder(ask))
    return { method: 'PUT', path: '/mail/threads/00000000000000ac', body: { orders_data: ids.map((id) => ({ id })) } }
  },
  deleteThreadContext: async (text, ask) => {
    const path = '/mail/threads/00000000000000ad'
    await ask('PUT', path, {
      client_id: await newClient(ask),
      participants_data: fitting(100, 250_000, () => ({ name: text(800) })),
    })
    return { method: 'DELETE', path, body: undefined }
  },
  'putEmailThread, 1 MiB': emailThread(BODY_BYTES - 1_000),
  'putEmailThread, 20 MiB': emailThread(20 * BODY_BYTES),
  deleteEmailThread: async (text, ask) => {
    const { path, body } = await emailThread(BODY_BYTES - 1_000)(text, ask)
    await ask('PUT', path, body)
    return { method: 'DELETE', path: `${path}?account_email=shop@mail.example`, body: undefined }
  },
  presignUpload: async (_text, ask) => ({
    method: 'POST',
    path: `/orders/${await newOrder(ask)}/files/presign`,
    body: { fileName: `${'a'.repeat(200)}.png`, size: 1_000, legacyThreadId: '00000000000000ab' },
  }),
}

export const run = (): Promise<void> => inDirectory(measure)

async function measure(directory: string): Promise<void> {
  const running: Running[] = []
  try {
    const state = join(directory, 'state')
    const tokens = await fillState(state, fill)
    const floor = await startFloor(join(directory, 'floor'))
    running.push(floor)
    let databaseMs = 0
    const script = buildWorker(join(directory, 'build'), 'held-database.js')
    let heldMs = 0
    const api = await startApi(script, state, {
      handleStructuredLogs: ({ message }) => {
        const line = /^\{.*\}$/.test(message) ? JSON.parse(message) : {}
        if (line.event === 'request') databaseMs = line.database_ms
        if (line.event === 'held') heldMs = Math.max(heldMs, line.ms)
      },
    })
    running.push(api)
    const { url } = api
    let turn = 0
    const send = async (method: string, path: string, body: unknown) => {
      databaseMs = Number.NaN
      heldMs = 0
      const token = tokens[turn++ % TOKENS] ?? ''
      const text = body === undefined ? undefined : JSON.stringify(body)
      const response = await fetch(`${url}/api/v1${path}`, {
        method,
        headers: { ...bearer(token), 'content-type': 'application/json' },
        ...(text !== undefined && { body: text }),
      })
      const answer = await response.text()
      for (let wait = 0; Number.isNaN(databaseMs) && wait < 500; wait++) {
        await new Promise((resolve) => setTimeout(resolve, 2))
      }
      return { answer, status: response.status, ms: databaseMs, heldMs, bytes: Buffer.byteLength(text ?? '') }
    }
    const ask: Ask = async (method, path, body) => {
      const { status, answer } = await send(method, path, body)
      if (status !== 200) throw new Error(`${method} ${path}: ${status} ${answer.slice(0, 500)}`)
      return JSON.parse(answer)
    }
    console.log(
      `\nthe worst writes: ms that their longest transaction held the database, median and maximum of ${TIMES}, and the median of all their transactions; floor: the median of ${FLOOR_WRITES} floor writes between them; ratio: the first over the floor`,
    )
    const { WRITES = '' } = process.env
    for (const [name, shape] of Object.entries(SHAPES)) {
      if (!name.includes(WRITES)) continue
      for (const alphabet of Object.keys(ALPHABETS) as Alphabet[]) {
        const times: number[] = []
        const totals: number[] = []
        const floorTimes: number[] = []
        let bytes = 0
        for (let n = 0; n < TIMES; n++) {
          for (let write = 0; write < FLOOR_WRITES / TIMES; write++) floorTimes.push(await writeFloor(floor.url))
          const { method, path, body } = await shape((length) => textOf(alphabet, length), ask)
          const sent = await send(method, path, body)
          if (sent.status !== 200) {
            process.exitCode = 1
            console.log(`  ${name}: ${sent.status} ${sent.answer.slice(0, 100)}`)
          }
          bytes = Math.max(bytes, sent.bytes)
          times.push(sent.heldMs)
          totals.push(sent.ms)
        }
        print(`${name}, ${alphabet}`, bytes, { times, totals, floorTimes })
      }
    }
  } finally {
    for (const { worker } of running) await worker.dispose()
  }
}

/** Milliseconds of a write by a Worker that does nothing else. */
async function writeFloor(url: string): Promise<number> {
  const company_name = textOf('ascii', 20)
  const body = JSON.stringify({ company_name, email: `${Math.random()}@mail.example` })
  const start = performance.now()
  const response = await fetch(`${url}/client`, { method: 'POST', body })
  await response.arrayBuffer()
  return performance.now() - start
}

async function startFloor(state: string): Promise<Running> {
  const running = await startBare(readFileSync(join(import.meta.dirname, 'floor.js'), 'utf8'), state)
  await fillCompany(running.worker, 1, 1)
  return running
}

/** The look-alike in slot 0, a large company in slot 1, and the company under test in slot 2. */
async function fill(worker: Running['worker']): Promise<string[]> {
  const tokens = await fillCompany(worker, LOOKALIKE_CLIENTS, TOKENS)
  const db = await worker.getD1Database('DB')
  await db.batch([
    db.prepare("INSERT INTO companies (id, slot, name, created_at, updated_at) VALUES (2, 2, 'Writes', 0, 0)"),
    db.prepare("INSERT INTO order_statuses (company_id, id, title, is_default) VALUES (2, 1, 'New', 1)"),
    db.prepare('UPDATE api_tokens SET company_id = 2'),
  ])
  return tokens
}

interface Times {
  /** Of the longest transaction of each request, and of all of them. */
  times: number[]
  totals: number[]
  floorTimes: number[]
}

function print(name: string, bytes: number, { times, totals, floorTimes }: Times): void {
  const floorMs = median(floorTimes)
  const middle = median(times)
  const isHeld = bytes <= BODY_BYTES
  const isOver = isHeld && middle > TARGET * floorMs
  if (isOver) process.exitCode = 1
  const columns = [
    `${Math.ceil(bytes / 1024)} KiB`.padStart(10),
    middle.toFixed(1).padStart(9),
    Math.max(...times)
      .toFixed(1)
      .padStart(9),
    median(totals).toFixed(1).padStart(9),
    floorMs.toFixed(1).padStart(9),
    (middle / floorMs).toFixed(1).padStart(7),
    isHeld ? `  ${TARGET}${isOver ? ' over' : ''}` : '  not held',
  ]
  console.log(`  ${name.padEnd(44)}${columns.join('')}`)
}
