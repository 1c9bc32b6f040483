import * as z from 'zod/mini'
import { type ApiClient, ApiError, createClient, type SyncProgress, syncAttachments } from '../client/index.ts'
import { CommandError, command, optional, runCommand, TEXT } from './command.ts'
import { readSampleCompany } from './sample-company.ts'
import sampleThread from './sample-thread.json' with { type: 'json' }
import { startDev } from './start-dev.ts'

const HELP = `Stores the attachments of a sample mail thread with its order, twice, and prints the progress.

  --url URL                  of a running service; without it, a server with temporary data is started
  --token TOKEN              of that service
  --thread LEGACY_THREAD_ID  of a thread that is linked to one order, by default one of the sample company`
const ARGUMENTS = {
  url: optional('--url URL', z.string().check(z.refine(URL.canParse, 'must be an address'))),
  token: optional('--token TOKEN', TEXT),
  thread: optional('--thread LEGACY_THREAD_ID', TEXT),
}

/** The bytes of an attachment: those of the file in base64, or so many that do not compress well. */
function readContent({ content, size = 0 }: { content?: string; size?: number }): Uint8Array {
  if (content !== undefined) return Buffer.from(content, 'base64')
  return Uint8Array.from({ length: size }, (_, index) => (Math.imul(index, 2_654_435_761) >>> 24) & 0xff)
}

const FILES = new Map(
  sampleThread.messages.flatMap(({ attachments }) =>
    attachments.map((each) => [each.mail_attachment_id, readContent(each)] as const),
  ),
)

/** The thread as it was read from a mailbox. */
const THREAD = {
  ...sampleThread,
  messages: sampleThread.messages.map((message) => ({
    ...message,
    attachments: message.attachments.map(({ filename, mime_type, mail_attachment_id: id }) => {
      return { filename, mime_type, size_bytes: FILES.get(id)?.length ?? 0, mail_attachment_id: id }
    }),
  })),
}

const demo = command(ARGUMENTS, async ({ url, token, thread = findSampleThread() }) => {
  if (token !== undefined && !/^[0-9a-f]{64}$/i.test(token)) {
    throw new CommandError('--token must be 64 hexadecimal characters.')
  }
  if (url !== undefined && token !== undefined) return runDemo(createClient({ baseUrl: url, token }), thread)
  if (url !== undefined || token !== undefined) throw new CommandError('--url and --token go together.')
  console.log('Starting a server with a sample company…')
  const dev = await startDev()
  await runDemo(createClient({ baseUrl: dev.url, token: dev.token }), thread).finally(dev.stop)
})

/** A thread of the sample company that is linked to one order. */
function findSampleThread(): string {
  const { thread_contexts } = readSampleCompany(Date.now())
  const context = thread_contexts.find(({ orders_data }) => Array.isArray(orders_data) && orders_data.length === 1)
  return context?.legacy_thread_id ?? ''
}

async function runDemo(client: ApiClient, legacyThreadId: string): Promise<void> {
  try {
    console.log(`Thread ${legacyThreadId}: "${THREAD.subject}", ${THREAD.messages.length} messages\n\nFirst run`)
    const orderId = await sync(client, legacyThreadId)
    console.log('\nSecond run: stored files are not uploaded again')
    await sync(client, legacyThreadId)

    const { files } = await client.files.list(orderId, { legacyThreadId })
    console.log(`\nThe files of order ${orderId} that came with this thread`)
    for (const { path, length, source } of files)
      console.log(`  ${source}  ${String(length).padStart(9)} bytes  ${path}`)
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
    accountEmail: 'orders@ridgeline.example',
    thread: THREAD,
    loadAttachment: (_, { mail_attachment_id: id = '' }) => FILES.get(id) ?? new Uint8Array(),
    onProgress: printProgress,
    verify: true,
  })
  if (result.status === 'skipped') throw new CommandError(`The thread was skipped: ${result.reason}.`)
  const { orderId, emailThread, attachments, missingKeys } = result
  const missing = missingKeys?.join(', ') || 'none'
  console.log(`  thread stored: ${emailThread.message_count} messages; order ${orderId}; missing keys: ${missing}`)
  for (const attachment of attachments) if (attachment.status === 'failed') throw attachment.error
  return orderId
}

function printProgress({ messageIndex, attachmentIndex, phase, sentBytes, totalBytes, outcome }: SyncProgress): void {
  const name = THREAD.messages[messageIndex]?.attachments?.[attachmentIndex]?.filename
  if (phase === 'finished' && outcome) {
    console.log(`  ${outcome.status.padEnd(15)} ${name}${'storageKey' in outcome ? ` → ${outcome.storageKey}` : ''}`)
  }
  if (phase === 'uploading' && sentBytes === 0) console.log(`  uploading       ${name} (${totalBytes} bytes)`)
}

await runCommand('demo', HELP, demo)
