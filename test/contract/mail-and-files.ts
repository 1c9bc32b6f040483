import { type Api, etagOf, newKey, type Schemas, take } from './api.ts'

/** A thread with a context, and the mailbox that stores it. */
export interface Task {
  legacyThreadId: string
  accountEmail: string
}

const THREAD = '/mail/threads/{legacyThreadId}'
const EMAIL_THREAD = '/mail/email-threads/{legacyThreadId}'
const CREST = 'Not an image'

/** Links two new threads to the order, and stores them with a file. */
export async function workOnMailAndFiles(api: Api, order: Schemas['Order'], task: Task): Promise<string[]> {
  const ids = ['first', 'second'].map((name) => `${name}-${crypto.randomUUID()}`)
  const [first = ''] = ids
  return [
    ...(await workOnContexts(api, order, ids, task)),
    ...(await workOnFiles(api, order.project.id, first)),
    ...(await workOnEmailThreads(api, ids, task)),
  ]
}

async function workOnContexts(api: Api, order: Schemas['Order'], ids: string[], task: Task): Promise<string[]> {
  const path = { legacyThreadId: task.legacyThreadId }
  const known = await take(api.GET(THREAD, { params: { path } }))
  const orders = Array.isArray(known.orders_data) ? known.orders_data.length : 0

  const { project, client } = order
  for (const legacyThreadId of ids) {
    const body: Schemas['ThreadContextBody'] = {
      thread_id: `thread-${legacyThreadId}`,
      sender_email: client.email,
      client_id: client.id,
      client_data: { id: client.id, company_name: client.company_name },
      clients_data: [{ id: client.id }],
      orders_data: [{ id: project.id, title: project.title }],
      selected_order_id: String(project.id),
      participant_emails: [client.email ?? ''],
      participants_data: [{ name: client.first_name }],
      // As they were read, like those of a context that is read, changed and sent back.
      legacy_thread_id: known.legacy_thread_id,
      fetched_at: known.fetched_at,
      updated_at: known.updated_at,
    }
    await take(api.PUT(THREAD, { params: { path: { legacyThreadId } }, body }))
  }

  const query = { order_id: project.id, per_page: 1 }
  const { data, pagination } = await take(api.GET('/mail/threads', { params: { query } }))
  const cursor = pagination.next_cursor ?? ''
  const next = await take(api.GET('/mail/threads', { params: { query: { ...query, cursor } } }))
  const ofClient = await take(api.GET('/mail/threads', { params: { query: { client_id: client.id } } }))
  const linked = [...data, ...next.data].map((context) => context.legacy_thread_id?.split('-')[0])

  const removal = { path: { legacyThreadId: ids[0] ?? '' }, header: { 'Idempotency-Key': newKey() } }
  const removed = await take(api.DELETE(THREAD, { params: removal }))
  return [
    `${known.thread_id} ${known.selected_order_id ?? 'none'} ${orders} ${known.fetched_at}`,
    `linked: ${linked.join()} ${ofClient.data.length} ${next.pagination.has_more}`,
    `unlinked: ${removed.client_data?.company_name} ${removed.sender_email?.split('@')[1]}`,
  ]
}

async function workOnFiles(api: Api, orderId: number, legacyThreadId: string): Promise<string[]> {
  const ofOrder = { orderId }
  const body: Schemas['NewFile'] = {
    fileName: 'crest.png',
    contentType: 'image/png',
    size: CREST.length,
    legacyThreadId,
  }
  const upload = await take(api.POST('/orders/{orderId}/files/presign', { params: { path: ofOrder }, body }))
  const { uploadUrl, key, contentType, expiresIn } = upload
  const stored = await fetch(uploadUrl, { method: 'PUT', headers: { 'content-type': contentType }, body: CREST })
  const { files, configured, truncated } = await take(
    api.GET('/orders/{orderId}/files', { params: { path: ofOrder, query: { legacyThreadId } } }),
  )

  const params = { path: ofOrder, query: { path: key } }
  const download = await take(api.GET('/orders/{orderId}/files/download', { params }))
  const text = await (await fetch(download.downloadUrl)).text()
  const removal = { ...params, header: { 'Idempotency-Key': newKey() } }
  const { file: removed } = await take(api.DELETE('/orders/{orderId}/files', { params: removal }))
  return [
    `${new URL(uploadUrl).protocol} ${key} ${contentType} ${expiresIn / 60} ${stored.status}`,
    `files: ${configured} ${truncated} ${files.map((file) => `${file.objectName} ${file.length} ${file.source}`)}`,
    `download: ${download.contentType} ${download.length.toFixed()} ${text}`,
    `removed: ${removed.path === key} ${removed.lastChanged.slice(0, 2)}`,
  ]
}

async function workOnEmailThreads(api: Api, ids: string[], { accountEmail }: Task): Promise<string[]> {
  const from: Schemas['Mailbox'] = { name: 'Ada', email: 'ada@quay.example' }
  const attachment: Schemas['Attachment'] = {
    filename: 'crest.png',
    mime_type: 'image/png',
    size_bytes: CREST.length,
    storage_key: null,
    mail_attachment_id: 'a1',
  }
  const message: Schemas['Message'] = {
    id: 'm1',
    sent_at: '2026-11-02T09:00:00Z',
    from,
    to: [{ name: 'Shop', email: accountEmail }],
    subject: 'Shirts',
    snippet: 'The crest',
    body_plain: 'Here is the crest.',
    body_text: 'Here is the crest.',
    body_html: '<p>Here is the crest.</p>',
    is_from_us: false,
    attachments: [attachment],
  }
  const body: Schemas['EmailThreadBody'] = {
    account_email: accountEmail,
    messages: [message],
    participants: [{ ...from }],
    labels: ['inbox'],
    subject: 'Shirts',
    snippet: null,
    mail_thread_id: null,
    first_message_at: '2026-11-02T09:00:00Z',
    last_message_at: '2026-11-02T09:00:00Z',
    mail_history_id: '42',
    last_synced_at: null,
  }
  const lines: string[] = []
  for (const legacyThreadId of ids) {
    const { email_thread: stored } = await take(api.PUT(EMAIL_THREAD, { params: { path: { legacyThreadId } }, body }))
    lines.push(`${stored.labels.join()} ${stored.message_count.toFixed()} ${stored.last_synced_at.slice(0, 2)}`)
  }

  const path = { legacyThreadId: ids[0] ?? '' }
  const ofMailbox = { account_email: accountEmail }
  const read = await api.GET(EMAIL_THREAD, { params: { path, query: ofMailbox } })
  const header = { 'If-None-Match': etagOf(read) }
  const again = await api.GET(EMAIL_THREAD, { params: { path, query: ofMailbox, header } })
  const { email_thread: thread } = await take(read)

  const removal = { path, query: ofMailbox, header: { 'Idempotency-Key': newKey() } }
  const { email_thread: removed } = await take(api.DELETE(EMAIL_THREAD, { params: removal }))
  const query = { ...ofMailbox, deleted: 'include', updated_since: thread.updated_at, per_page: 1 } as const
  const { data, pagination } = await take(api.GET('/mail/email-threads', { params: { query } }))
  const cursor = pagination.next_cursor ?? ''
  const next = await take(api.GET('/mail/email-threads', { params: { query: { ...query, cursor } } }))
  const states = [...data, ...next.data].map(({ deleted }) => (deleted ? 'deleted' : 'stored'))
  return [
    ...lines,
    `${thread.messages.length} ${again.response.status}`,
    `email threads: ${states.join()} ${removed.id === thread.id} ${JSON.stringify(thread.messages[0]?.from)}`,
  ]
}
