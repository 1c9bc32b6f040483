import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fillCompany, insert, insertOf } from '../harness/company.ts'
import { call, send, sendWell } from '../harness/http.ts'
import { inTurn, median } from '../harness/load.ts'
import { fillState, openBuild, type Running, startApi, startFloor } from '../harness/worker.ts'

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

type Text = (length: number) => string
type Sent = [method: string, path: string, body?: object]

/** Sends a request outside of the measurement and gives its body. */
// biome-ignore lint/suspicious/noExplicitAny: the measurement fails where a body has another shape
type Ask = (...sent: Sent) => Promise<any>

/** Makes the next write of a kind, each time with other texts. */
type Shape = (text: Text, ask: Ask) => Promise<Sent>

const clientOf = (text: Text) => ({
  company_name: text(255),
  first_name: text(255),
  last_name: text(255),
  phone: text(255),
  website: text(255),
  tax_exempt_reason: text(1_000),
})
const orderOf = (text: Text) => ({
  title: text(255),
  description: text(10_000),
  client_notes: text(10_000),
  tax_exempt_reason: text(1_000),
})
/** The lists of a whole order, as many as a body may have. */
const wholeOf = (text: Text) => ({
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

const newClient = async (ask: Ask) => (await ask('POST', '/clients', { company_name: 'Worst' })).client.id

async function newOrder(ask: Ask): Promise<number> {
  const client_id = await newClient(ask)
  return (await ask('POST', '/orders', { title: 'Worst', client_id })).project.id
}

async function newPayment(text: Text, ask: Ask): Promise<string> {
  const path = `/orders/${await newOrder(ask)}/payments`
  return `${path}/${(await ask('POST', path, { amount: 1, note: text(10_000) })).payment.id}`
}

const putClient = async (text: Text): Promise<Sent> => [
  'PUT',
  `/clients/by-external-id/${externalId()}`,
  clientOf(text),
]
const putOrder: Shape = async (text, ask) => {
  const body = { client_id: await newClient(ask), ...orderOf(text), ...wholeOf(text) }
  return ['PUT', `/orders/by-external-id/${externalId()}`, body]
}

const itemsLimit = 399_000
/** All lines of one invoice, of so many characters each. */
const lines = (count: number, title: number, description: number, others = 0): Shape => {
  let order: number | undefined
  return async (text, ask) => {
    order ??= await newOrder(ask)
    const other = others ? { supplier: text(others), style: text(others), color: text(others), size: text(others) } : {}
    const items = fitting(count, itemsLimit, () => ({ title: text(title), description: text(description), ...other }))
    return ['PUT', `/orders/${order}/invoice-items`, { items }]
  }
}
/** The same lines with their ids and other texts. */
const changedLines = (count: number, title: number, description: number): Shape => {
  const fill = lines(count, title, description)
  return async (text, ask) => {
    const [method, path, body] = await fill(text, ask)
    const ids: number[] = (await ask(method, path, body)).invoice_items.map(({ id }: { id: number }) => id)
    const items = fitting(ids.length, itemsLimit, () => ({
      id: ids.shift(),
      title: text(title),
      description: text(description),
    }))
    return [method, path, { items }]
  }
}
/** What `then` makes of a write that was sent before it, each time to another order. */
const after = (first: () => Shape, then: (sent: Sent, text: Text) => Sent): Shape => {
  return async (text, ask) => {
    const sent = await first()(text, ask)
    await ask(...sent)
    return then(sent, text)
  }
}

const batch = (make: (text: Text, ask: Ask) => Promise<() => object>): Shape => {
  return async (text, ask) => {
    const next = await make(text, ask)
    return ['POST', '/batch', { operations: fitting(100, BODY_BYTES - 100, next) }]
  }
}
const changes = (path: string, make: () => object) => () => ({ method: 'PATCH', path, body: make() })

/** Refuses every second operation of a batch, so that the others are repeated without it. */
const halfRefused = (next: () => object) => {
  let count = 0
  return () => ({ ...next(), ...(count++ % 2 === 0 && { if_match: '"999999"' }) })
}

const messages = (bytes: number, text: Text) => {
  const body_plain = text(1_000)
  const one = { body_plain, body_html: body_plain }
  return fitting(100_000, bytes, () => ({ ...one, id: Math.random().toString(36) }))
}
const emailThread = (bytes: number): Shape => {
  return async (text) => [
    'PUT',
    '/mail/email-threads/00000000000000ab',
    { account_email: 'shop@mail.example', messages: messages(bytes, text) },
  ]
}

const SHAPES: Record<string, Shape> = {
  createClient: async (text) => ['POST', '/clients', clientOf(text)],
  updateClient: async (text, ask) => ['PATCH', `/clients/${await newClient(ask)}`, clientOf(text)],
  'putClient, new': putClient,
  'putClient, replaced': after(
    () => putClient,
    ([method, path], text) => [method, path, clientOf(text)],
  ),
  'deleteClient, of 100 orders': async (text, ask) => {
    const { client } = await ask('POST', '/clients', clientOf(text))
    for (let n = 0; n < 100; n++) await ask('POST', '/orders', { title: text(255), client_id: client.id })
    return ['DELETE', `/clients/${client.id}`]
  },
  'putOrder, new': putOrder,
  'putOrder, replaced': after(
    () => putOrder,
    ([method, path, body], text) => [method, path, { ...body, ...orderOf(text), ...wholeOf(text) }],
  ),
  createOrder: async (text, ask) => ['POST', '/orders', { client_id: await newClient(ask), ...orderOf(text) }],
  updateOrder: async (text, ask) => ['PATCH', `/orders/${await newOrder(ask)}`, orderOf(text)],
  'deleteOrder, 500 lines': after(
    () => lines(500, 255, 100),
    ([, path]) => ['DELETE', path.replace('/invoice-items', '')],
  ),
  'putInvoiceItems, 39 of 10,000': lines(39, 255, 9_740),
  'putInvoiceItems, 500 of 700': lines(500, 255, 430),
  'putInvoiceItems, 500 of 455': lines(500, 255, 200),
  'putInvoiceItems, 500 of 200': lines(500, 1, 200, 100),
  'putInvoiceItems, 39 changed': changedLines(39, 255, 9_700),
  'putInvoiceItems, 500 changed': changedLines(500, 255, 200),
  'putInvoiceItems, 500 the same': after(
    () => changedLines(500, 255, 200),
    (sent) => sent,
  ),
  'putInvoiceItems, 500 removed': after(
    () => lines(500, 255, 200),
    ([method, path]) => [method, path, { items: [] }],
  ),
  createPayment: async (text, ask) => {
    return ['POST', `/orders/${await newOrder(ask)}/payments`, { amount: 1, method: text(255), note: text(10_000) }]
  },
  updatePayment: async (text, ask) => {
    return ['PATCH', await newPayment(text, ask), { method: text(255), note: text(10_000) }]
  },
  deletePayment: async (text, ask) => ['DELETE', await newPayment(text, ask)],
  'runBatch, new clients': batch(async (text) => () => ({ method: 'POST', path: '/clients', body: clientOf(text) })),
  'runBatch, one client': batch(async (text, ask) => changes(`/clients/${await newClient(ask)}`, () => clientOf(text))),
  'runBatch, clients, half refused': batch(async (text, ask) =>
    halfRefused(changes(`/clients/${await newClient(ask)}`, () => clientOf(text))),
  ),
  'runBatch, own ids': batch(async (text) => () => ({
    method: 'PUT',
    path: `/clients/by-external-id/${externalId()}`,
    body: clientOf(text),
  })),
  'runBatch, new orders': batch(async (text, ask) => {
    const client_id = await newClient(ask)
    return () => ({ method: 'POST', path: '/orders', body: { client_id, ...orderOf(text) } })
  }),
  'runBatch, one order': batch(async (text, ask) => changes(`/orders/${await newOrder(ask)}`, () => orderOf(text))),
  'runBatch, orders, half refused': batch(async (text, ask) =>
    halfRefused(changes(`/orders/${await newOrder(ask)}`, () => ({ title: text(255) }))),
  ),
  putThreadContext: async (text, ask) => {
    const client_id = await newClient(ask)
    const clients_data = fitting(100, 100_000, () => ({ name: text(300) }))
    const participants_data = fitting(100, 150_000, () => ({ name: text(300) }))
    return ['PUT', '/mail/threads/00000000000000ab', { client_id, clients_data, participants_data }]
  },
  'putThreadContext, 100 orders': async (_text, ask) => {
    const orders_data: object[] = []
    for (let n = 0; n < 100; n++) orders_data.push({ id: await newOrder(ask) })
    return ['PUT', '/mail/threads/00000000000000ac', { orders_data }]
  },
  deleteThreadContext: async (text, ask) => {
    const path = '/mail/threads/00000000000000ad'
    const participants_data = fitting(100, 250_000, () => ({ name: text(800) }))
    await ask('PUT', path, { client_id: await newClient(ask), participants_data })
    return ['DELETE', path]
  },
  'putEmailThread, 1 MiB': emailThread(BODY_BYTES - 1_000),
  'putEmailThread, 20 MiB': emailThread(20 * BODY_BYTES),
  deleteEmailThread: after(
    () => emailThread(BODY_BYTES - 1_000),
    ([, path]) => ['DELETE', `${path}?account_email=shop@mail.example`],
  ),
}

export async function run(): Promise<void> {
  await using build = await openBuild('held-database.js')
  const { script, directory, state } = build
  const tokens = await fillState(state, fill)
  await using floor = await startFloor('floor.js', join(directory, 'floor'))
  await fillCompany(floor.worker, 1, 1)
  let heldMs = 0
  let isLogged = false
  await using api = await startApi(script, state, {
    handleStructuredLogs: ({ message }) => {
      const line = /^\{.*\}$/.test(message) ? JSON.parse(message) : {}
      if (line.event === 'request') isLogged = true
      if (line.event === 'held') heldMs = Math.max(heldMs, line.ms)
    },
  })
  const token = inTurn(tokens)
  const measure = async (...[method, path, body]: Sent) => {
    isLogged = false
    heldMs = 0
    const wire = call(method, path, token(), body)
    const response = await send(api.url, wire)
    const answer = await response.text()
    for (let wait = 0; !isLogged && wait < 500; wait++) await sleep(2)
    return { answer, status: response.status, heldMs, bytes: Buffer.byteLength(wire.body ?? '') }
  }
  const ask: Ask = async (...sent) => {
    const { status, answer } = await measure(...sent)
    if (status !== 200) throw new Error(`${sent[0]} ${sent[1]}: ${status} ${answer.slice(0, 500)}`)
    return JSON.parse(answer)
  }
  console.log(
    `\nthe worst writes: ms that their longest transaction held the database, the median of ${TIMES}; floor: the median of ${FLOOR_WRITES} floor writes between them; ratio: the first over the floor`,
  )
  for (const [name, shape] of Object.entries(SHAPES)) {
    for (const alphabet of Object.keys(ALPHABETS) as Alphabet[]) {
      const measured: Measured[] = []
      const floorTimes: number[] = []
      for (let n = 0; n < TIMES; n++) {
        for (let write = 0; write < FLOOR_WRITES / TIMES; write++) floorTimes.push(await writeFloor(floor.url))
        const sent = await measure(...(await shape((length) => textOf(alphabet, length), ask)))
        if (sent.status !== 200) {
          process.exitCode = 1
          console.log(`  ${name}: ${sent.status} ${sent.answer.slice(0, 100)}`)
        }
        measured.push(sent)
      }
      print(`${name}, ${alphabet}`, measured, median(floorTimes))
    }
  }
}

/** Milliseconds of a write by a Worker that does nothing else. */
async function writeFloor(url: string): Promise<number> {
  const company_name = textOf('ascii', 20)
  const body = JSON.stringify({ company_name, email: `${Math.random()}@mail.example` })
  const start = performance.now()
  await sendWell(url, { method: 'POST', path: '/client', body })
  return performance.now() - start
}

/** The look-alike in slot 0, a large company in slot 1, and the company under test in slot 2. */
async function fill(worker: Running['worker']): Promise<string[]> {
  const tokens = await fillCompany(worker, LOOKALIKE_CLIENTS, TOKENS)
  const db = await worker.getD1Database('DB')
  await insert(db, 'companies', [{ id: 2, slot: 2, name: 'Writes', created_at: 0, updated_at: 0 }])
  await insertOf(db, 2, 'order_statuses', [{ id: 1, title: 'New', is_default: 1 }])
  await db.prepare('UPDATE api_tokens SET company_id = 2').run()
  return tokens
}

interface Measured {
  bytes: number
  /** Of the longest transaction of a request. */
  heldMs: number
}

function print(name: string, measured: readonly Measured[], floorMs: number): void {
  const middle = median(measured.map(({ heldMs }) => heldMs))
  const bytes = Math.max(...measured.map((each) => each.bytes))
  const isHeld = bytes <= BODY_BYTES
  const isOver = isHeld && middle > TARGET * floorMs
  if (isOver) process.exitCode = 1
  const figure = (value: number, width: number) => value.toFixed(1).padStart(width)
  const columns = [
    `${Math.ceil(bytes / 1024)} KiB`.padStart(10),
    figure(middle, 9),
    figure(floorMs, 9),
    figure(middle / floorMs, 7),
    isHeld ? `  ${TARGET}${isOver ? ' over' : ''}` : '  not held',
  ]
  console.log(`  ${name.padEnd(44)}${columns.join('')}`)
}
