import { type Answer, ask } from '../harness/ask.ts'
import { compareOrder } from './check.ts'
import { isContent } from './check-threads.ts'
import type { CompanyState } from './company-state.ts'
import { at, compareLists, differences } from './differences.ts'
import { nameOf, type ThreadName, type Write } from './journal.ts'
import { toClient } from './rows.ts'
import { makeThreadBody } from './thread-body.ts'

const AT_ONCE = 4
const RESPONSE_MS = 60_000

interface Read {
  path: string
  /** What is wrong with the response. */
  judge: (status: number, response: unknown) => string[]
}

/** Reads what the writes were about through the API: it must say what the tables hold. */
export async function checkThroughApi(
  url: string,
  tokens: readonly string[],
  state: CompanyState,
  writes: readonly Write[],
): Promise<string[]> {
  const reads = readsAbout(state, writes)
  const findings: string[] = []
  let next = 0
  const ask = async () => {
    for (let index = next++; index < reads.length; index = next++) {
      const read = reads[index]
      if (read) findings.push(...(await put(url, tokens[index % tokens.length] ?? '', read)))
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, ask))
  return [...findings, ...(await checkFeed(url, tokens[0] ?? '', state))]
}

/** Reads the whole feed of changes, page by page. */
async function checkFeed(url: string, token: string, state: CompanyState): Promise<string[]> {
  const read: unknown[] = []
  let path = '/changes?per_page=1000'
  for (let hasMore = true; hasMore; ) {
    const response = await get(url, token, path)
    if (response.status !== 200)
      return [`GET ${path}: the status is ${response.status} ${JSON.stringify(response.body)}`]
    const { data, pagination } = response.body
    read.push(...data.map(({ time: _, ...change }: Record<string, unknown>) => change))
    path = `/changes?per_page=1000&cursor=${encodeURIComponent(pagination.next_cursor)}`
    hasMore = pagination.has_more
  }
  const names = new Map(Array.from(state.threads, ([name, { id }]) => [id, name.split(' ')]))
  const wanted = state.changes.map(({ type, entity_id, operation, version, old_status_id, new_status_id }) => {
    const statuses = operation === 'status_changed' && { old_status_id, new_status_id }
    if (type !== 'email_threads') return { type, id: Number(entity_id), operation, version, ...statuses }
    const [account_email, legacy_thread_id] = names.get(entity_id) ?? []
    return { type, id: entity_id, account_email, legacy_thread_id, operation, version }
  })
  return compareLists((place) => `GET /changes: change ${place}`, wanted, read)
}

function get(url: string, token: string, path: string): Promise<Answer> {
  return ask({ url }, token, 'GET', `/api/v1${path}`, { timeoutMs: RESPONSE_MS })
}

async function put(url: string, token: string, { path, judge }: Read): Promise<string[]> {
  const response = await get(url, token, path)
  if (response.status === 0) return [`GET ${path}: ${response.body}`]
  return judge(response.status, response.body).map((finding) => `GET ${path}: ${finding}`)
}

function readsAbout(state: CompanyState, writes: readonly Write[]): Read[] {
  const clientIds = new Set<number>()
  const orderIds = new Set<number>()
  const threads = new Map<string, ThreadName>()
  for (const { action, response } of writes) {
    if (action.kind === 'email_thread.write') threads.set(nameOf(action.thread), action.thread)
    else if (action.kind.startsWith('client'))
      clientIds.add('id' in action ? action.id : Number(at(response, 'client', 'id')))
    else orderIds.add('id' in action ? action.id : Number(at(response, 'project', 'id')))
  }
  // The newest, too: made by a write that was left without a response, perhaps.
  clientIds.add(state.last.clients)
  orderIds.add(state.last.orders)
  const isKnown = (rows: Map<number, unknown>) => (id: number) => rows.has(id)
  return [
    ...[...clientIds].filter(isKnown(state.clients)).flatMap((id) => readsOfClient(state, id)),
    ...[...orderIds].filter(isKnown(state.orders)).map((id) => readOfOrder(state, id)),
    ...[...threads.values()].map((thread) => readOfThread(state, thread)),
    readOfTotal('/clients', [...state.clients.values()]),
    readOfTotal('/orders', [...state.orders.values()]),
  ]
}

function readsOfClient(state: CompanyState, id: number): Read[] {
  const client = toClient(state.clients.get(id))
  const isFound = (response: unknown) => {
    const rows = at(response, 'data')
    return Array.isArray(rows) && rows.some((row) => at(row, 'id') === id)
  }
  const paths = [`/clients/${id}`]
  if (typeof client?.external_id === 'string') {
    paths.push(`/clients/by-external-id/${encodeURIComponent(client.external_id)}`)
  }
  return [
    ...paths.map((path) => ({
      path,
      judge: (_: number, response: unknown) => differences(`client ${id}`, at(response, 'client'), client),
    })),
    {
      path: `/clients?per_page=100&q=${encodeURIComponent(client?.company_name ?? '')}`,
      judge: (_, response) => differences(`client ${id} among the hits`, isFound(response), client?.deleted === false),
    },
  ]
}

function readOfOrder(state: CompanyState, id: number): Read {
  return {
    path: `/orders/${id}`,
    judge: (status, response) =>
      state.orders.get(id)?.deleted
        ? differences('the status of a deleted order', status, 404)
        : compareOrder(state, id, response, 'the'),
  }
}

function readOfThread(state: CompanyState, { accountEmail, legacyThreadId }: ThreadName): Read {
  const wanted = state.threads.get(nameOf({ accountEmail, legacyThreadId }))
  return {
    path: `/mail/email-threads/${legacyThreadId}?account_email=${encodeURIComponent(accountEmail)}`,
    judge: (status, response) => {
      if (!wanted) return differences('the status of a thread that was never written', status, 404)
      const body = makeThreadBody(accountEmail, wanted.bytes, wanted.mark)
      return [
        ...differences('the subject', at(response, 'email_thread', 'subject'), wanted.mark),
        ...differences('the count', at(response, 'email_thread', 'message_count'), body.messages.length),
        ...differences('having the whole content', isContent(at(response, 'email_thread'), body), true),
      ]
    },
  }
}

function readOfTotal(path: string, rows: { deleted: number }[]): Read {
  const total = rows.filter((row) => row.deleted === 0).length
  return {
    path: `${path}?per_page=1`,
    judge: (_, response) => differences('the total', at(response, 'pagination', 'total'), total),
  }
}
