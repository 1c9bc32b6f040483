import type { Books } from './books.ts'
import { at, clientOf, differences, invoiceOf, projectOf, withoutTotals } from './check.ts'
import { isContent } from './check-threads.ts'
import { nameOf, type ThreadName, type Write } from './journal.ts'
import { makeThreadBody } from './thread-body.ts'

const AT_ONCE = 4

interface Question {
  path: string
  /** What is wrong with the answer. */
  judge: (status: number, answer: unknown) => string[]
}

/** Reads what the writes were about through the API: it must say what the tables hold. */
export async function checkThroughApi(
  url: string,
  tokens: readonly string[],
  books: Books,
  writes: readonly Write[],
): Promise<string[]> {
  const questions = questionsAbout(books, writes)
  const findings: string[] = []
  let next = 0
  const ask = async () => {
    for (let index = next++; index < questions.length; index = next++) {
      const question = questions[index]
      if (question) findings.push(...(await put(url, tokens[index % tokens.length] ?? '', question)))
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, ask))
  return findings
}

async function put(url: string, token: string, { path, judge }: Question): Promise<string[]> {
  const response = await fetch(`${url}/api/v1${path}`, { headers: { authorization: `Bearer ${token}` } })
  return judge(response.status, await response.json()).map((finding) => `GET ${path}: ${finding}`)
}

function questionsAbout(books: Books, writes: readonly Write[]): Question[] {
  const clientIds = new Set<number>()
  const orderIds = new Set<number>()
  const threads = new Map<string, ThreadName>()
  for (const { action, answer } of writes) {
    if (action.kind === 'email_thread.write') threads.set(nameOf(action.thread), action.thread)
    else if (action.kind.startsWith('client'))
      clientIds.add('id' in action ? action.id : Number(at(answer, 'client', 'id')))
    else orderIds.add('id' in action ? action.id : Number(at(answer, 'project', 'id')))
  }
  // The newest, too: made by a write that was never answered, perhaps.
  clientIds.add(books.last.clients)
  orderIds.add(books.last.orders)
  const isKnown = (rows: Map<number, unknown>) => (id: number) => rows.has(id)
  return [
    ...[...clientIds].filter(isKnown(books.clients)).flatMap((id) => aboutClient(books, id)),
    ...[...orderIds].filter(isKnown(books.orders)).map((id) => aboutOrder(books, id)),
    ...[...threads.values()].map((thread) => aboutThread(books, thread)),
    aboutTotal('/clients', [...books.clients.values()]),
    aboutTotal('/orders', [...books.orders.values()]),
  ]
}

function aboutClient(books: Books, id: number): Question[] {
  const client = clientOf(books, id)
  const isFound = (answer: unknown) => {
    const rows = at(answer, 'data')
    return Array.isArray(rows) && rows.some((row) => at(row, 'id') === id)
  }
  return [
    { path: `/clients/${id}`, judge: (_, answer) => differences(`client ${id}`, at(answer, 'client'), client) },
    {
      path: `/clients?per_page=100&q=${encodeURIComponent(client?.company_name ?? '')}`,
      judge: (_, answer) => differences(`client ${id} among the hits`, isFound(answer), client?.deleted === false),
    },
  ]
}

function aboutOrder(books: Books, id: number): Question {
  const project = projectOf(books, id)
  return {
    path: `/orders/${id}`,
    judge: (status, answer) =>
      project?.deleted
        ? differences('the status of a deleted order', status, 404)
        : [
            ...differences(`project ${id}`, at(answer, 'project'), project),
            ...differences(`the invoice of ${id}`, withoutTotals(at(answer, 'invoice')), invoiceOf(books, id)),
          ],
  }
}

function aboutThread(books: Books, { accountEmail, legacyThreadId }: ThreadName): Question {
  const wanted = books.threads.get(nameOf({ accountEmail, legacyThreadId }))
  return {
    path: `/mail/email-threads/${legacyThreadId}?account_email=${encodeURIComponent(accountEmail)}`,
    judge: (status, answer) => {
      if (!wanted) return differences('the status of a thread that was never written', status, 404)
      const body = makeThreadBody(accountEmail, wanted.bytes, wanted.mark)
      return [
        ...differences('the subject', at(answer, 'email_thread', 'subject'), wanted.mark),
        ...differences('the count', at(answer, 'email_thread', 'message_count'), body.messages.length),
        ...differences('having the whole content', isContent(at(answer, 'email_thread'), body), true),
      ]
    },
  }
}

function aboutTotal(path: string, rows: { deleted: number }[]): Question {
  const total = rows.filter((row) => row.deleted === 0).length
  return {
    path: `${path}?per_page=1`,
    judge: (_, answer) => differences('the total', at(answer, 'pagination', 'total'), total),
  }
}
