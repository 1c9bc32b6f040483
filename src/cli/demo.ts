import { type ApiClient, ApiError, createClient, type SyncProgress, syncAttachments } from '../client/index.ts'
import { CommandError, readCommandLine, runCommand } from './command.ts'
import { type DemoThread, makeDemoThread } from './demo-thread.ts'
import { readSampleCompany } from './sample-company.ts'
import { type RunningDev, startDev } from './start-dev.ts'

const USAGE = 'npm run demo [-- --url URL --token TOKEN [--thread LEGACY_THREAD_ID]]'
const TOKEN = /^[0-9a-f]{64}$/i

/*
 * Stores the attachments of a sample mail thread with its order, twice, and prints the progress. Without --url it
 * starts a server with temporary data.
 */
await runCommand(async (args) => {
  const { values } = readCommandLine(args, USAGE, { options: ['url', 'token', 'thread'], positionals: [0, 0] })
  const { url, token, thread: legacyThreadId = findSampleThread() } = values
  if ((url === undefined) !== (token === undefined)) throw new CommandError(`--url and --token go together. ${USAGE}`)
  if (url !== undefined && !URL.canParse(url)) throw new CommandError(`--url must be an address, not '${url}'.`)
  if (token !== undefined && !TOKEN.test(token)) throw new CommandError('--token must be 64 hexadecimal characters.')
  if (url !== undefined && token !== undefined) return runDemo(createClient({ baseUrl: url, token }), legacyThreadId)

  print('Starting a server with a sample company…')
  const dev = await startServer()
  try {
    await runDemo(createClient({ baseUrl: dev.url, token: dev.token }), legacyThreadId)
  } finally {
    await dev.stop()
  }
})

async function runDemo(client: ApiClient, legacyThreadId: string): Promise<void> {
  try {
    const demo = makeDemoThread()
    print(`Thread ${legacyThreadId}: "${demo.thread.subject}", ${demo.thread.messages.length} messages`)
    print('\nFirst run')
    const orderId = await sync(client, legacyThreadId, demo)
    print('\nSecond run, as after a crash: stored files are kept')
    await sync(client, legacyThreadId, demo)

    const { files } = await client.files.list(orderId, { legacyThreadId })
    print(`\nThe files of order ${orderId} that came with this thread`)
    for (const { path, length, source } of files) print(`  ${source}  ${String(length).padStart(9)} bytes  ${path}`)
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    const request = error.requestId === null ? '' : ` (request ${error.requestId})`
    throw new CommandError(`${error.code}: ${error.message}${request}`)
  }
}

/** @returns the id of the order that the files belong to */
async function sync(client: ApiClient, legacyThreadId: string, demo: DemoThread): Promise<string> {
  const { accountEmail, thread, contents } = demo
  const result = await syncAttachments(client, {
    legacyThreadId,
    accountEmail,
    thread,
    loadAttachment: (_, { mail_attachment_id: id = '' }) => contents.get(id) ?? new Uint8Array(),
    onProgress: (progress) => printProgress(progress, demo),
    verify: true,
  })
  if (result.status === 'skipped') throw new CommandError(`The thread was skipped: ${result.reason}.`)
  const { orderId, emailThread, attachments, missingKeys } = result
  print(
    `  thread stored: ${emailThread.message_count} messages; order ${orderId}; missing keys: ${missingKeys?.join(', ') || 'none'}`,
  )
  const failed = attachments.find(({ status }) => status === 'failed')
  if (failed?.status === 'failed') throw failed.error
  return orderId
}

function printProgress(progress: SyncProgress, { thread }: DemoThread): void {
  const { messageIndex, attachmentIndex, phase, sentBytes, totalBytes, outcome } = progress
  const name = thread.messages[messageIndex]?.attachments?.[attachmentIndex]?.filename
  if (phase === 'finished' && outcome) {
    print(`  ${outcome.status.padEnd(15)} ${name}${'storageKey' in outcome ? ` → ${outcome.storageKey}` : ''}`)
  }
  if (phase === 'uploading' && sentBytes === 0) print(`  uploading       ${name} (${totalBytes} bytes)`)
}

/** A thread of the sample company that is linked to one order. */
function findSampleThread(): string {
  const { thread_contexts } = readSampleCompany(Date.now())
  const context = thread_contexts.find(({ orders_data }) => Array.isArray(orders_data) && orders_data.length === 1)
  if (!context?.legacy_thread_id) throw new CommandError('The sample company has no thread with one order.')
  return context.legacy_thread_id
}

async function startServer(): Promise<RunningDev> {
  try {
    return await startDev()
  } catch (error) {
    throw new CommandError(error instanceof Error ? error.message : 'The server did not start.')
  }
}

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}
