import { type Attachment, type Message, type SyncOptions, syncAttachments } from '../../src/client/index.ts'
import { type Crm, MAILBOX, openCrm, THREAD_ID } from './support.ts'

export const FOLDER = `orders/1/12/email/${THREAD_ID}`
export const context = (more: Record<string, unknown> = {}) => ({ [THREAD_ID]: { orders_data: [{ id: 12 }], ...more } })
export const seed = { orders: [{ id: 12 }, { id: 13 }], contexts: context() }

export const messages: Message[] = [
  { id: 'm1', body_plain: 'Hello', attachments: [{ filename: 'logo.png', mime_type: 'image/png' }] },
  { id: 'm2', body_plain: 'No attachment' },
  {
    id: 'm3',
    attachments: [
      { filename: 'logo.png', mail_attachment_id: 'a1' },
      { filename: 'quote (1).pdf', mail_attachment_id: 'a2' },
    ],
  },
]

export function optionsFor(more: Partial<SyncOptions> = {}): SyncOptions {
  return {
    legacyThreadId: THREAD_ID,
    accountEmail: MAILBOX,
    thread: { messages, subject: 'Shirts', labels: ['inbox'] },
    loadAttachment: (message, attachment) => new Blob([bytesOf(message, attachment)]),
    ...more,
  }
}

export const sync = (crm: Pick<Crm, 'api'>, more: Partial<SyncOptions> = {}) =>
  syncAttachments(crm.api, optionsFor(more))

export function bytesOf(message: Message, attachment: Attachment): string {
  return `${message.id} ${attachment.filename}`
}

export async function readEnd(crm: Crm) {
  const { state } = await crm.look()
  return { threads: state.threads, files: state.files }
}

export async function openThread(crm: Crm) {
  return (await readEnd(crm)).threads[`${MAILBOX} ${THREAD_ID}`]
}

export async function readMessages(crm: Crm): Promise<Message[]> {
  const { emailThread } = await crm.client().mail.getEmailThread(THREAD_ID, { account_email: MAILBOX })
  return emailThread?.messages ?? []
}

/** Runs a sync once. @returns the API, and the threads and files that it stores then */
export async function openSynced(options: Partial<SyncOptions> = {}) {
  const crm = await openCrm(seed)
  await sync(crm, options)
  return { crm, before: await readEnd(crm) }
}

/** Fails as a mailbox does that cannot be reached. */
export const offline = () => Promise.reject(new Error('offline'))
