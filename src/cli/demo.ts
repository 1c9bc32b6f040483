import { type ApiClient, ApiError, createClient, type SyncProgress, syncAttachments } from '../client/index.ts'
import { CommandError, print, readCommandLine, runCommand, TEXT } from './command.ts'
import { readSampleCompany } from './sample-company.ts'
import { startDev } from './start-dev.ts'

const USAGE = 'npm run demo [-- --url URL --token TOKEN [--thread LEGACY_THREAD_ID]]'
const HELP = `${USAGE}

Stores the attachments of a sample mail thread with its order, twice, and prints the progress.

  --url URL                  of a running service; without it, a server with temporary data is started
  --token TOKEN              of that service
  --thread LEGACY_THREAD_ID  of a thread that is linked to one order, by default one of the sample company`

/** A thread of the sample company that is linked to one order. */
function findSampleThread(): string {
  const { thread_contexts } = readSampleCompany(Date.now())
  const context = thread_contexts.find(({ orders_data }) => Array.isArray(orders_data) && orders_data.length === 1)
  return context?.legacy_thread_id ?? ''
}

async function runDemo(client: ApiClient, legacyThreadId: string): Promise<void> {
  try {
    print(`Thread ${legacyThreadId}: "${THREAD.subject}", ${THREAD.messages.length} messages\n\nFirst run`)
    const orderId = await sync(client, legacyThreadId)
    print('\nSecond run, as after a crash: stored files are not uploaded again')
    await sync(client, legacyThreadId)

    const { files } = await client.files.list(orderId, { legacyThreadId })
    print(`\nThe files of order ${orderId} that came with this thread`)
    for (const { path, length, source } of files) print(`  ${source}  ${String(length).padStart(9)} bytes  ${path}`)
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    const request = error.requestId === null ? '' : ` (request ${error.requestId})`
    throw new CommandError(`${error.code}: ${error.message}${request}`)
  }
}

/** @returns the id of the order to which the files belong */
async function sync(client: ApiClient, legacyThreadId: string): Promise<string> {
  const result = await syncAttachments(client, {
    legacyThreadId,
    accountEmail: SHOP.email,
    thread: THREAD,
    loadAttachment: (_, { mail_attachment_id: id = '' }) => FILES[id]?.bytes ?? new Uint8Array(),
    onProgress: printProgress,
    verify: true,
  })
  if (result.status === 'skipped') throw new CommandError(`The thread was skipped: ${result.reason}.`)
  const { orderId, emailThread, attachments, missingKeys } = result
  const missing = missingKeys?.join(', ') || 'none'
  print(`  thread stored: ${emailThread.message_count} messages; order ${orderId}; missing keys: ${missing}`)
  for (const attachment of attachments) if (attachment.status === 'failed') throw attachment.error
  return orderId
}

function printProgress({ messageIndex, attachmentIndex, phase, sentBytes, totalBytes, outcome }: SyncProgress): void {
  const name = THREAD.messages[messageIndex]?.attachments?.[attachmentIndex]?.filename
  if (phase === 'finished' && outcome) {
    print(`  ${outcome.status.padEnd(15)} ${name}${'storageKey' in outcome ? ` → ${outcome.storageKey}` : ''}`)
  }
  if (phase === 'uploading' && sentBytes === 0) print(`  uploading       ${name} (${totalBytes} bytes)`)
}

const CUSTOMER = { name: 'Ines Duarte', email: 'ines@harbor-rowing.example' }
const SHOP = { name: 'Orders', email: 'orders@ridgeline.example' }
const SUBJECT = 'Jerseys for the regatta'

/** PNG files of one pixel. */
const LOGO = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=='
const SIGNATURE_IMAGE = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII='
const SIZES = 'size,quantity\nS,6\nM,14\nL,20\nXL,8\n'
/** Bytes that do not compress well. */
const DESIGN = Uint8Array.from({ length: 3 * 1_048_576 }, (_, index) => (Math.imul(index, 2_654_435_761) >>> 24) & 0xff)

/** Text, images, a larger file, special characters, and two files of one name; their ids begin with the message's. */
const FILES: Record<string, { name: string; type: string; bytes: Uint8Array }> = {
  m1a: { name: 'logo front (final).png', type: 'image/png', bytes: Buffer.from(LOGO, 'base64') },
  m1b: { name: 'tamanhos & cores +1.csv', type: 'text/csv; charset=utf-8', bytes: Buffer.from(SIZES) },
  m1c: { name: 'image001.png', type: 'image/png', bytes: Buffer.from(SIGNATURE_IMAGE, 'base64') },
  m3a: { name: 'bordado 50% maior.dst', type: 'application/octet-stream', bytes: DESIGN },
  m3b: { name: 'image001.png', type: 'image/png', bytes: Buffer.from(LOGO, 'base64') },
}

/** The thread as it was read from a mailbox. */
const THREAD = {
  subject: SUBJECT,
  snippet: 'Here are the logo and the sizes.',
  participants: [CUSTOMER, SHOP],
  labels: ['INBOX'],
  messages: [
    message('m1', '2026-03-02T09:30:00Z', CUSTOMER, 'Please see what is attached.'),
    message('m2', '2026-03-02T15:05:00Z', SHOP, 'Thank you. One question on the sleeves…'),
    message('m3', '2026-03-03T08:12:00Z', CUSTOMER, 'Please see what is attached.'),
  ],
}

function message(id: string, sent_at: string, from: typeof SHOP, body_plain: string) {
  const is_from_us = from === SHOP
  const subject = id === 'm1' ? SUBJECT : `Re: ${SUBJECT}`
  const attachments = Object.entries(FILES)
    .filter(([file]) => file.startsWith(id))
    .map(([mail_attachment_id, file]) => {
      return { filename: file.name, mime_type: file.type, size_bytes: file.bytes.length, mail_attachment_id }
    })
  return { id, sent_at, from, to: [is_from_us ? CUSTOMER : SHOP], subject, body_plain, is_from_us, attachments }
}

/*
 * Stores the attachments of a sample mail thread with its order, twice, and prints the progress. Without --url it starts
 * a server with temporary data.
 */
await runCommand(HELP, async (args) => {
  const { values } = readCommandLine(args, USAGE, { url: TEXT, token: TEXT, thread: TEXT })
  const { url, token, thread = findSampleThread() } = values
  if (url === undefined && token === undefined) {
    print('Starting a server with a sample company…')
    const dev = await startDev()
    return runDemo(createClient({ baseUrl: dev.url, token: dev.token }), thread).finally(dev.stop)
  }
  if (url === undefined || token === undefined) throw new CommandError(`--url and --token go together. ${USAGE}`)
  if (!URL.canParse(url)) throw new CommandError(`--url must be an address, not '${url}'.`)
  if (!/^[0-9a-f]{64}$/i.test(token)) throw new CommandError('--token must be 64 hexadecimal characters.')
  await runDemo(createClient({ baseUrl: url, token }), thread)
})
