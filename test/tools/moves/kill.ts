import { createHash, randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { check } from './check.ts'
import { addLookAlikes, fillCompany } from './fill.ts'
import { administer, ask, makeTokens, type Name, openService, type Service, startMove } from './service.ts'

export const MOVED = 1
/** It lives where the other one is moved to. */
const NEIGHBOUR = 2

const ORDERS = 1_500
const WRITERS = 4
const TOKENS = 11
const RETRY_MS = 60
/** How often a point is waited for in another move, where it passed unseen. */
const ATTEMPTS = 4

interface Seen {
  step: string
  table: number
  /** What the old and the new database say of the company. */
  from: string | undefined
  to: string | undefined
}

/** Where a move is killed, and whether everything is killed with the command. */
const POINTS: [
  name: string,
  isThere: (seen: Seen) => boolean,
  victim: 'command' | 'all',
  then: 'resume' | 'take back',
][] = [
  ['at its beginning', ({ step }) => step !== '', 'all', 'resume'],
  ['in the copy of clients', ({ step, table }) => step === 'copy' && table === 3, 'all', 'take back'],
  ['in the copy of orders', ({ step, table }) => step === 'copy' && table >= 5, 'command', 'resume'],
  ['in the copy of mail', ({ step, table }) => step === 'copy' && table >= 9, 'all', 'resume'],
  ['in the copy of the rest', ({ step, table }) => step === 'copy' && table >= 13, 'command', 'take back'],
  ['before writes are refused', ({ step }) => step === 'follow' || step === 'switch', 'all', 'take back'],
  ['while writes are refused', ({ from }) => from === 'read_only', 'all', 'resume'],
  ['while writes are refused, again', ({ from }) => from === 'read_only', 'all', 'take back'],
  ['when the old database is closed', ({ from, step }) => from === 'moved' && step !== 'remove', 'all', 'resume'],
  ['in the removal', ({ step, table }) => step === 'remove' && table > 6, 'all', 'resume'],
]

/** What one writer has written, each acknowledged. */
export interface Written {
  /** Requests that were acknowledged, by their ids: what they made. */
  creates: { requestId: string; kind: 'client' | 'order'; id: number; name: string }[]
  /** The last name of each client, and how often it was changed. */
  clients: Map<number, { name: string; version: number }>
  orders: Map<number, { title: string; deleted: boolean; version: number }>
  /** The hash of the text of each thread. */
  threads: Map<string, string>
  contexts: Map<string, string>
}

const noFigures = () => ({
  kills: [] as string[],
  missed: [] as string[],
  findings: [] as string[],
  writes: 0,
  refused: 0,
  lost: 0,
})

/** Kills moves of a company with SIGKILL while it is written, each at another point, and looks for what is lost or doubled. */
export async function killMoves(report: (line: string) => void = () => {}) {
  await using opened = new AsyncDisposableStack()
  const service = opened.use(await openService())
  const figures = noFigures()
  const world = { isOver: false }
  opened.defer(() => {
    world.isOver = true
  })
  await addLookAlikes(service)
  await administer(service, 'POST', '/companies', { id: MOVED, name: 'Moved', database: 'DB' })
  await administer(service, 'POST', '/companies', { id: NEIGHBOUR, name: 'Neighbour', database: 'DB_TWO' })
  await service.write('DB', (db) => fillCompany(db, MOVED, ORDERS))
  await service.write('DB_TWO', (db) => fillCompany(db, NEIGHBOUR, ORDERS))
  const tokens = await makeTokens(service, MOVED, WRITERS * TOKENS)
  const neighbour = fingerprint(service, NEIGHBOUR)
  const all = Array.from({ length: WRITERS }, (_, number) =>
    write(service, world, figures, number, tokens.slice(number * TOKENS, (number + 1) * TOKENS)),
  )
  const writing = Promise.all(all)
  // A failure of a writer is one of the run, which ends then.
  let hasFailed = false
  writing.catch(() => {
    hasFailed = true
  })
  let home: Name = 'DB'
  for (const point of POINTS) {
    for (let attempt = 1; !hasFailed; attempt++) {
      const result = await killOnce(service, home, point)
      home = result.home
      if (!result.isKilled && attempt < ATTEMPTS) continue
      figures[result.isKilled ? 'kills' : 'missed'].push(point[0])
      report(`${result.isKilled ? 'killed' : 'not killed'} ${point[0]}, then in ${home}`)
      break
    }
  }
  world.isOver = true
  const written = await writing
  figures.findings.push(...(await check(service, home, tokens[0] ?? '', written)))
  if (fingerprint(service, NEIGHBOUR) !== neighbour) figures.findings.push('The other company has changed.')
  /** The findings after these statements in the database that has the company. */
  const recheck = async (spoil: string) => {
    await service.write(home, (db) => {
      // Only what the statement says is to be wrong.
      db.exec('PRAGMA foreign_keys = OFF')
      db.exec(spoil)
    })
    return check(service, home, tokens[0] ?? '', written)
  }
  const kept = opened.move()
  return { figures, recheck, close: () => kept.disposeAsync() }
}

const other = (home: Name): Name => (home === 'DB' ? 'DB_TWO' : 'DB')

async function killOnce(service: Service, from: Name, [, isThere, victim, then]: (typeof POINTS)[number]) {
  const to = other(from)
  const move = startMove(service, MOVED, to)
  let isOver = false
  move.ended.then(() => {
    isOver = true
  })
  let isKilled = false
  while (!isOver && !isKilled) {
    isKilled = isThere(look(service, from, to))
    if (!isKilled) await sleep(1)
  }
  if (isKilled) {
    move.kill()
    if (victim === 'all') {
      await service.kill()
      await service.start()
    }
  }
  await move.ended
  if (isKilled && then === 'take back') {
    const back = await startMove(service, MOVED, from).ended
    if (back.code === 0) return { home: from, isKilled }
    if (!back.output.includes('has moved')) throw new Error(back.output)
  }
  const end = await startMove(service, MOVED, to).ended
  if (end.code !== 0) throw new Error(end.output)
  return { home: to, isKilled }
}

function look(service: Service, from: Name, to: Name): Seen {
  const guard = (name: Name) =>
    service.read<{ state: string }>(name, 'SELECT state FROM company_guards WHERE company_id = ?', MOVED)[0]?.state
  const [move] = service.read<{ state: string }>('DB', 'SELECT state FROM moves WHERE company_id = ?', MOVED)
  const { step = '', table = 0 } = move ? JSON.parse(move.state) : {}
  return { step, table, from: guard(from), to: guard(to) }
}

/** A hash of all rows of a company in its database. */
function fingerprint(service: Service, companyId: number): string {
  const tables = service.read<{ name: string }>(
    'DB_TWO',
    "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE '%company_id%' AND name NOT LIKE '%fts%' ORDER BY name",
  )
  const queries = tables.map(({ name }) => `SELECT * FROM ${name} WHERE company_id = ? ORDER BY 1, 2, 3`)
  const hash = createHash('sha256')
  for (const query of [...queries, 'SELECT * FROM companies WHERE id = ?']) {
    hash.update(JSON.stringify(service.read('DB_TWO', query, companyId)))
  }
  return hash.digest('hex')
}

/** Writes until the end, each request again until it is acknowledged; after each, the writer's token reads its own write. */
async function write(
  service: Service,
  world: { isOver: boolean },
  figures: ReturnType<typeof noFigures>,
  writer: number,
  tokens: string[],
): Promise<Written> {
  const maps = { clients: new Map(), orders: new Map(), threads: new Map(), contexts: new Map() }
  const written: Written = { creates: [], ...maps }
  let count = 0

  async function send(token: string, method: string, path: string, body?: object) {
    const requestId = `w${writer}-${++count}`
    const headers = {
      'x-request-id': requestId,
      ...(method !== 'PUT' && method !== 'GET' && { 'idempotency-key': requestId }),
    }
    for (;;) {
      const answer = await ask(service, token, method, `/api/v1${path}`, body, headers)
      if (answer.status === 200) return { ...answer, requestId }
      if (answer.status === 0) figures.lost++
      else if (answer.status === 503 || answer.status === 409) figures.refused++
      // A write that was carried out before a crash may have ended what it is repeated on.
      else if (answer.status === 404 && method === 'DELETE') return { ...answer, requestId }
      else throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`)
      await sleep(RETRY_MS)
    }
  }

  for (let turn = 1; !world.isOver; turn++) {
    const token = tokens[turn % tokens.length] ?? ''
    const name = `Writer ${writer} turn ${turn}`
    const client = await send(token, 'POST', '/clients', { company_name: name, external_id: name })
    const clientId: number = client.body.client.id
    written.creates.push({ requestId: client.requestId, kind: 'client', id: clientId, name })
    const order = await send(token, 'POST', '/orders', { title: name, client_id: clientId })
    const orderId: number = order.body.project.id
    written.creates.push({ requestId: order.requestId, kind: 'order', id: orderId, name })
    await send(token, 'PATCH', `/clients/${clientId}`, { first_name: name })
    written.clients.set(clientId, { name, version: 2 })
    const shown = await send(token, 'GET', `/clients/${clientId}`)
    if (shown.body.client.first_name !== name) figures.findings.push(`${name}: the token does not read its own write`)
    await send(token, 'PATCH', `/orders/${orderId}`, { description: name })
    const isDeleted = turn % 5 === 0
    if (isDeleted) await send(token, 'DELETE', `/orders/${orderId}`)
    written.orders.set(orderId, { title: name, deleted: isDeleted, version: isDeleted ? 3 : 2 })
    const thread = `writer-${writer}-${turn % 4}`
    // Every third one is more than the database holds of a thread.
    const text = turn % 3 === 0 ? randomBytes(1_100_000).toString('base64') : name.repeat(20)
    await send(token, 'PUT', `/mail/email-threads/${thread}`, { account_email: 'a@x.example', messages: [{ text }] })
    written.threads.set(thread, createHash('sha256').update(text).digest('hex'))
    await send(token, 'PUT', `/mail/threads/${thread}`, { client_id: clientId, sender_email: name })
    written.contexts.set(thread, name)
    figures.writes += isDeleted ? 7 : 6
  }
  return written
}
