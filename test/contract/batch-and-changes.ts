import { type Api, newKey, type Schemas, tagOf, take } from './api.ts'

/** Changes an order and a client in one request: of the client, one change is outdated. */
export async function changeTogether(api: Api, { project, client }: Schemas['Order']): Promise<string[]> {
  const body: Schemas['Batch'] = {
    operations: [
      { method: 'POST', path: '/orders', body: { title: 'Caps', client_id: client.id } },
      { method: 'PATCH', path: `/orders/${project.id}`, body: { description: null }, if_match: tagOf(project) },
      { method: 'PATCH', path: `/clients/${client.id}`, body: { phone: null }, if_match: '"1"' },
      { method: 'PUT', path: `/clients/by-external-id/${client.external_id}`, body: { company_name: 'Quay Divers' } },
    ],
  }
  const header = { 'Idempotency-Key': newKey() }
  const { results, transactions } = await take(api.POST('/batch', { params: { header }, body }))
  return [`transactions: ${transactions.toFixed()}`, ...results.map(describeResult)]
}

/** Of one operation of a batch, whose response is that of its own request. */
function describeResult({ status, body, transaction }: Schemas['BatchResult']): string {
  const place = `${status.toFixed()} in ${transaction ?? 'none'}:`
  if ('error' in body) return `${place} ${body.error.code}`
  if ('accounting' in body) return `${place} ${body.project.title} ${body.accounting.status}`
  if ('project' in body) return `${place} ${body.project.title} ${body.invoice?.balance_due.toFixed(2)}`
  return `${place} ${'client' in body ? body.client.company_name : 'something else'}`
}

/** Everything that changed since the cursor was read. */
export async function readChanges(api: Api, start: string): Promise<string[]> {
  const lines: string[] = []
  let cursor = start
  for (let has_more = true; has_more; ) {
    const query = { cursor, types: 'clients,orders,email_threads', per_page: 3, wait: 1, expand: 'object' } as const
    const page = await take(api.GET('/changes', { params: { query } }))
    lines.push(...page.data.map(describeChange))
    cursor = page.pagination.next_cursor
    has_more = page.pagination.has_more
  }
  return [...new Set(lines)]
}

/** `type` discriminates the two forms. */
function describeChange(change: Schemas['Change']): string {
  const { operation, version, time } = change
  const name = change.type === 'email_threads' ? change.account_email.trim() : change.id.toFixed()
  if (version < 1 || Number.isNaN(Date.parse(time))) throw new Error('The change has no version or time.')
  return `${change.type} ${name} ${operation}`
}
