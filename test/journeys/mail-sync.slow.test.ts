import { randomBytes } from 'node:crypto'
import { expect, it, onTestFinished } from 'vitest'
import type { Change, Message } from '../../src/client/index.ts'
import { freshState } from '../node/cli-support.ts'
import { importInstalledClient } from '../node/client-package.ts'
import { serveState } from '../node/dev-server.ts'
import { createRandom } from '../support/random.ts'
import { chooseSeed } from './large-shop.ts'
import { startLossyProxy } from './lossy-proxy.ts'

/* A mail extension's sync of one thread, over a connection that loses responses. */

const account_email = 'orders@shop.example'
const legacyThreadId = '18c2f0a9b7d3e4f1'
const LOSS = 0.15

const FILES: Record<string, { filename: string; mime_type: string; bytes: Buffer<ArrayBuffer> }> = {
  a1: { filename: 'crest (final).png', mime_type: 'image/png', bytes: randomBytes(300_000) },
  a2: { filename: 'größen.csv', mime_type: 'text/csv', bytes: Buffer.from('size,count\nXL,12\n') },
  // The name of another attachment.
  a3: { filename: 'crest (final).png', mime_type: 'image/png', bytes: randomBytes(5_000) },
  a4: { filename: 'empty.txt', mime_type: 'text/plain', bytes: Buffer.alloc(0) },
}

const attach = (...ids: string[]) =>
  ids.map((id) => {
    const { filename = '', mime_type = '', bytes = Buffer.alloc(0) } = FILES[id] ?? {}
    return { mail_attachment_id: id, filename, mime_type, size_bytes: bytes.length }
  })

const messages: Message[] = [
  { id: 'm1', subject: 'Regatta shirts', from: { email: 'ines@club.example' }, attachments: attach('a1', 'a2') },
  { id: 'm2', body_plain: 'And this one, please.', attachments: attach('a3', 'a4') },
]

it('links a mail thread, uploads its attachments, reads all of it back and deletes it', async () => {
  const [{ createClient, syncAttachments }, server] = await Promise.all([
    importInstalledClient(),
    freshState().then((state) => serveState(state)),
  ])
  const proxy = await startLossyProxy(server.url, createRandom(chooseSeed()))
  proxy.setLoss(LOSS)
  const api = createClient({ baseUrl: proxy.url, token: server.token, maxRetries: 12, pace: true })

  const cursor = await api.changes.latestCursor()
  // A failed test must not follow without an end.
  const stop = new AbortController()
  onTestFinished(() => stop.abort())
  const followed = followUntil(api.changes.follow({ cursor, signal: stop.signal }), ({ type, operation }) => {
    return type === 'email_threads' && operation === 'delete'
  })
  followed.catch(() => undefined)

  const sync = async () => {
    const loaded: string[] = []
    const result = await syncAttachments(api, {
      legacyThreadId,
      accountEmail: account_email,
      thread: { subject: 'Regatta shirts', messages },
      loadAttachment: (_, { mail_attachment_id: id = '' }) => {
        loaded.push(id)
        return FILES[id]?.bytes ?? Buffer.alloc(0)
      },
      storeThread: 'always',
      verify: true,
    })
    return { result, loaded: loaded.sort() }
  }

  // A new mail is stored before anyone knows its order.
  expect(await sync()).toMatchObject({
    result: { status: 'skipped', reason: 'no_context', emailThread: { message_count: 2 } },
    loaded: [],
  })

  const { id: client_id } = await api.clients.create({ company_name: 'Harbor Rowing Club' })
  const { project } = await api.orders.create({ title: 'Regatta shirts', client_id })
  const link = { client_id, orders_data: [{ id: project.id }], selected_order_id: project.id }
  const context = await api.mail.putThreadContext(legacyThreadId, link)
  expect(await api.mail.getThreadContext(legacyThreadId)).toEqual(context)
  for (const query of [{ order_id: project.id }, { client_id }]) {
    expect((await api.mail.threadContexts.list(query)).data).toEqual([context])
  }

  const { result, loaded } = await sync()
  expect(loaded).toEqual(['a1', 'a2', 'a3', 'a4'])
  if (result.status !== 'stored') throw new Error(`The thread was skipped: ${result.reason}`)
  expect(result).toMatchObject({ orderId: String(project.id), missingKeys: [] })
  expect(result.attachments.map(({ status }) => status)).toEqual(['uploaded', 'uploaded', 'uploaded', 'uploaded'])
  // Nothing is left to upload, and an unchanged thread is no change.
  expect(await sync()).toMatchObject({ result: { status: 'stored' }, loaded: [] })

  const { emailThread } = await api.mail.getEmailThread(legacyThreadId, { account_email })
  const stored = emailThread?.messages ?? []
  expect(stored).toMatchObject(messages)
  const keys = new Map<string, string>()
  for (const { mail_attachment_id = '', storage_key } of stored.flatMap(({ attachments = [] }) => attachments)) {
    keys.set(mail_attachment_id, storage_key ?? '')
  }
  expect(new Set(keys.values()).size).toBe(4)
  expect((await api.files.list(project.id)).files.map(({ path }) => path).sort()).toEqual([...keys.values()].sort())
  for (const [id, path] of keys) {
    const { downloadUrl, contentType } = await api.files.download(project.id, path)
    const response = await fetch(downloadUrl)
    expect([response.status, contentType]).toEqual([200, FILES[id]?.mime_type])
    expect(Buffer.from(await response.arrayBuffer()).equals(FILES[id]?.bytes ?? Buffer.from('?')), id).toBe(true)
  }

  for (const path of keys.values()) {
    expect(await api.files.delete(project.id, path)).toMatchObject({ path })
    await expect(api.files.download(project.id, path)).rejects.toMatchObject({ status: 404 })
  }
  expect((await api.files.list(project.id)).files).toEqual([])
  await api.mail.deleteThreadContext(legacyThreadId)
  await expect(api.mail.getThreadContext(legacyThreadId)).rejects.toMatchObject({ status: 404 })
  for (const query of [{ order_id: project.id }, { client_id }]) {
    expect((await api.mail.threadContexts.list(query)).data).toEqual([])
  }
  expect(await api.mail.deleteEmailThread(legacyThreadId, { account_email })).toMatchObject({ deleted: true })
  await expect(api.mail.getEmailThread(legacyThreadId, { account_email })).rejects.toMatchObject({ status: 404 })
  const { data: left } = await api.mail.emailThreads.list({ account_email, deleted: 'only' })
  expect(left).toMatchObject([{ legacy_thread_id: legacyThreadId, deleted: true }])

  // The thread without and with its keys, the client and order between, and the end of the thread.
  const changes = await followed
  expect(changes.map(({ operation, type, id }) => [operation, type, id])).toEqual([
    ['create', 'email_threads', emailThread?.id],
    ['create', 'clients', client_id],
    ['create', 'orders', project.id],
    ['update', 'email_threads', emailThread?.id],
    ['delete', 'email_threads', emailThread?.id],
  ])
  expect(changes.at(-1)).toMatchObject({ account_email, legacy_thread_id: legacyThreadId })
  expect(proxy.fates.refused + proxy.fates.abandoned + proxy.fates.lost).toBeGreaterThan(0)
  expect(Object.keys(proxy.statuses).filter((status) => Number(status) >= 500)).toEqual([])
})

/** The changes up to the first that is the last one. */
async function followUntil(
  pages: AsyncGenerator<{ data: Change[] }, never, undefined>,
  isLast: (change: Change) => boolean,
): Promise<Change[]> {
  const changes: Change[] = []
  for await (const { data } of pages) {
    changes.push(...data)
    if (data.some(isLast)) break
  }
  return changes
}
