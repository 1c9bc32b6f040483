import { describe, expect, it } from 'vitest'
import { type Attachment, MAX_FILE_BYTES, type Message, syncAttachments } from '../../src/client/index.ts'
import {
  bytesOf,
  type Crm,
  context,
  FOLDER,
  listLines,
  offline,
  openCrm,
  openSynced,
  optionsFor,
  readEnd,
  readMessages,
  seed,
  sync,
} from './support.ts'

describe('the failure of one attachment', () => {
  it('is reported, and the others are stored', async () => {
    const crm = await openCrm(seed)
    const attachments = [
      { filename: 'huge.zip', size_bytes: MAX_FILE_BYTES + 1 },
      { filename: 'surprise.zip' },
      { filename: '..' },
      { mime_type: 'image/png' },
      { filename: 'gone.png' },
      { filename: 'good.png' },
    ]
    const loaded: (string | undefined)[] = []
    const loadAttachment = (_message: Message, { filename }: Attachment) => {
      loaded.push(filename)
      if (filename === 'gone.png') throw new Error('not in the mailbox')
      return filename === 'surprise.zip' ? sized(MAX_FILE_BYTES + 1) : new TextEncoder().encode('good')
    }
    const result = await sync(crm, { thread: { messages: [{ id: 'm', attachments }] }, loadAttachment })
    expect(result).toMatchObject({
      attachments: [
        { status: 'too_large', sizeBytes: MAX_FILE_BYTES + 1 },
        { status: 'too_large', sizeBytes: MAX_FILE_BYTES + 1 },
        { status: 'nameless', filename: '..' },
        { status: 'nameless', filename: null },
        { status: 'failed', error: new Error('not in the mailbox') },
        { status: 'uploaded', storageKey: `${FOLDER}/good.png` },
      ],
    })
    expect(loaded).toEqual(['surprise.zip', 'gone.png', 'good.png'])
    const [stored] = await readMessages(crm)
    expect(stored?.attachments).toEqual([
      ...attachments.slice(0, 5),
      { filename: 'good.png', storage_key: `${FOLDER}/good.png` },
    ])
  })

  it('preserves the key of an earlier order', async () => {
    const { crm } = await openSynced()
    await crm.seed({ contexts: context({ selected_order_id: '13' }) })
    await sync(crm, { loadAttachment: offline })
    const stored = await readMessages(crm)
    expect(stored[0]?.attachments?.[0]?.storage_key).toBe(`${FOLDER}/logo.png`)
  })

  it('requests a new URL once when one has expired', async () => {
    const body = '<Error><Code>AccessDenied</Code></Error>'
    const crm = await openCrm(seed, { match: '^PUT /upload', status: 403, body })
    const result = await sync(crm)
    expect(result).toMatchObject({ attachments: Array(3).fill({ status: 'uploaded' }) })
    expect((await listLines(crm)).filter((line) => line.includes('presign'))).toHaveLength(4)

    const other = await openCrm(seed, { match: '^PUT /upload', status: 403, times: -1 })
    const failed = await sync(other)
    expect(failed).toMatchObject({ attachments: Array(3).fill({ status: 'failed', error: { status: 403 } }) })
    expect((await listLines(other)).filter((line) => line.includes('presign'))).toHaveLength(6)
  })

  it('is found by verify, which reports the missing keys', async () => {
    const crm = await openCrm(seed)
    // Responds as if it had stored the bytes.
    await crm.spoil({ match: '^PUT /upload.*quote', status: 200 })
    const result = await sync(crm, { verify: true })
    expect(result).toMatchObject({ missingKeys: [`${FOLDER}/quote (1).pdf`] })
  })
})

describe('an interrupted run', () => {
  it.each(['before the request arrives', 'before its response arrives'])(
    'at any step, %s, and a second run store every attachment, with at most one unused file of each',
    async (when) => {
      const whole = await openCrm(seed)
      await sync(whole, { concurrency: 1 })
      const expected = await readContents(whole)
      const steps = (await listLines(whole)).length
      expect(steps).toBe(10)

      for (let step = 0; step < steps; step += 1) {
        const crm = await openCrm(seed)
        let calls = 0
        const crash = new AbortController()
        const client = crm.client({
          fetch: async (url, init) => {
            calls += 1
            const isLast = calls === step + 1
            const arrives = calls <= step || (isLast && when === 'before its response arrives')
            const response = arrives ? await fetch(url, init) : null
            if (response && !isLast) return response
            await response?.text()
            crash.abort(new Error('crash'))
            throw new Error('crash')
          },
        })
        const run = syncAttachments(client, optionsFor({ concurrency: 1, signal: crash.signal }))
        await expect(run).rejects.toThrow('crash')
        await sync(crm)
        expect(await readContents(crm), `after step ${step}`).toEqual(expected)
        expect(Object.keys((await readEnd(crm)).files).length).toBeLessThanOrEqual(6)
      }
    },
  )

  it('rejects with the signal’s reason and starts no more uploads', async () => {
    const crm = await openCrm(seed)
    const stop = new AbortController()
    const loaded: unknown[] = []
    const loadAttachment = (message: Message, attachment: Attachment) => {
      loaded.push(attachment.filename)
      stop.abort(new Error('window closed'))
      return new Blob([bytesOf(message, attachment)])
    }
    const run = sync(crm, { concurrency: 1, loadAttachment, signal: stop.signal })
    await expect(run).rejects.toThrow('window closed')
    expect(loaded).toEqual(['logo.png'])
    expect((await listLines(crm)).filter((line) => !line.startsWith('GET'))).toEqual([])
  })

  it('rejects before any upload for a thread that is too large with its keys', async () => {
    const crm = await openCrm(seed)
    const messages = [{ id: 'm', body_text: 'x'.repeat(26_214_300), attachments: [{ filename: 'logo.png' }] }]
    const run = sync(crm, { thread: { messages }, loadAttachment: offline })
    await expect(run).rejects.toMatchObject({
      status: 413,
      code: 'invalid_request',
      details: { limit_bytes: 26_214_400 },
    })
    expect((await listLines(crm)).filter((line) => !line.startsWith('GET'))).toEqual([])
  })

  it('rejects when the thread cannot be stored', async () => {
    const crm = await openCrm(seed, { match: '^PUT /api', status: 500, times: -1 })
    await expect(sync(crm)).rejects.toMatchObject({ status: 500 })
  })

  it('loses no stored key to the 404 of a proxy', async () => {
    const { crm, before } = await openSynced()
    await crm.spoil({ match: '^GET .*/email-threads/', status: 404, body: '<html>' })
    await expect(sync(crm, { loadAttachment: offline })).rejects.toMatchObject({
      status: 404,
    })
    expect(await readEnd(crm)).toEqual(before)
  })
})

/** The stored thread with the files themselves in place of their keys. */
async function readContents(crm: Crm) {
  const { files, threads } = await readEnd(crm)
  const withContent = (name: string, value: unknown) => (name === 'storage_key' ? files[String(value)] : value)
  return JSON.parse(JSON.stringify(threads, withContent))
}

/** An empty blob that reports this size. */
const sized = (size: number) => Object.defineProperty(new Blob([]), 'size', { value: size })
