import { describe, expect, it } from 'vitest'
import type { Attachment, Message, SyncOptions, SyncProgress } from '../../src/client/index.ts'
import { ApiError, MAX_FILE_BYTES, syncAttachments } from '../../src/client/index.ts'
import { type Crm, listLines, MAILBOX, openCrm, THREAD_ID } from './support.ts'

const FOLDER = `orders/1/12/email/${THREAD_ID}`
const context = (more: Record<string, unknown> = {}) => ({ [THREAD_ID]: { orders_data: [{ id: 12 }], ...more } })
const seed = { orders: [{ id: 12 }, { id: 13 }], contexts: context() }

const messages: Message[] = [
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

function optionsFor(more: Partial<SyncOptions> = {}): SyncOptions {
  return {
    legacyThreadId: THREAD_ID,
    accountEmail: MAILBOX,
    thread: { messages, subject: 'Shirts', labels: ['inbox'] },
    loadAttachment: (message, attachment) => new Blob([bytesOf(message, attachment)]),
    ...more,
  }
}

function bytesOf(message: Message, attachment: Attachment): string {
  return `${message.id} ${attachment.filename}`
}

async function readEnd(crm: Crm) {
  const { state } = await crm.look()
  return { threads: state.threads, files: state.files }
}

async function openThread(crm: Crm) {
  return (await readEnd(crm)).threads[`${MAILBOX} ${THREAD_ID}`]
}

async function readMessages(crm: Crm): Promise<Message[]> {
  const { emailThread } = await crm.client().mail.getEmailThread(THREAD_ID, { account_email: MAILBOX })
  return emailThread?.messages ?? []
}

describe('a run', () => {
  it('stores every attachment with the order, then the whole thread with their keys', async () => {
    const crm = await openCrm(seed)
    const result = await syncAttachments(crm.client(), optionsFor({ concurrency: 1, verify: true }))
    const marked = expect.stringMatching(/\/logo~[0-9a-f]{8}\.png$/)
    expect(result).toMatchObject({
      status: 'stored',
      orderId: '12',
      missingKeys: [],
      attachments: [
        {
          messageIndex: 0,
          attachmentIndex: 0,
          filename: 'logo.png',
          status: 'uploaded',
          storageKey: `${FOLDER}/logo.png`,
        },
        { messageIndex: 2, attachmentIndex: 0, filename: 'logo.png', status: 'uploaded', storageKey: marked },
        {
          messageIndex: 2,
          attachmentIndex: 1,
          status: 'uploaded',
          storageKey: `${FOLDER}/quote (1).pdf`,
          sizeBytes: 16,
        },
      ],
    })
    const { state } = await crm.look()
    expect(Object.values(state.files).map(({ body, contentType }) => [body, contentType])).toEqual([
      ['m1 logo.png', 'image/png'],
      ['m3 logo.png', 'application/octet-stream'],
      ['m3 quote (1).pdf', 'application/octet-stream'],
    ])
    expect(await openThread(crm)).toMatchObject({
      subject: 'Shirts',
      labels: ['inbox'],
      message_count: 3,
      messages: [
        { ...messages[0], attachments: [{ ...messages[0]?.attachments?.[0], storage_key: `${FOLDER}/logo.png` }] },
        messages[1],
        { id: 'm3', attachments: [{ storage_key: marked }, { storage_key: `${FOLDER}/quote (1).pdf` }] },
      ],
    })
    expect(messages[0]?.attachments?.[0]).not.toHaveProperty('storage_key')
  })

  it('goes context, stored state, then presign and PUT of each, then the thread', async () => {
    const crm = await openCrm(seed)
    await syncAttachments(crm.client(), optionsFor({ concurrency: 1 }))
    const lines = (await listLines(crm)).map((line) => line.replace(/^(\w+) .*?(\w+)[^/]*$/, '$1 $2'))
    expect(lines[0]).toMatch(/^GET/)
    expect(lines.slice(1, 3).every((line) => line.startsWith('GET'))).toBe(true)
    expect(lines.slice(3).map((line) => line.split(' ')[0])).toEqual([
      'POST',
      'PUT',
      'POST',
      'PUT',
      'POST',
      'PUT',
      'PUT',
    ])
  })

  it('a second time uploads nothing and ends the same', async () => {
    const crm = await openCrm(seed)
    await syncAttachments(crm.client(), optionsFor())
    const before = await readEnd(crm)
    const loadAttachment = () => Promise.reject(new Error('nothing to load'))
    const result = await syncAttachments(crm.client(), optionsFor({ loadAttachment }))
    expect(result).toMatchObject({ attachments: Array(3).fill({ status: 'already_stored' }) })
    expect(await readEnd(crm)).toEqual(before)
  })

  it('uploads a file again that was deleted from the order', async () => {
    const crm = await openCrm(seed)
    await syncAttachments(crm.client(), optionsFor())
    const before = await readEnd(crm)
    const { [`${FOLDER}/logo.png`]: _gone, ...files } = before.files
    await crm.seed({ files })
    const result = await syncAttachments(crm.client(), optionsFor())
    expect(result).toMatchObject({ attachments: [{ status: 'uploaded' }, { status: 'already_stored' }, {}] })
    expect(await readEnd(crm)).toEqual(before)
  })

  it('uploads to the new order when the thread moved to another', async () => {
    const crm = await openCrm(seed)
    await syncAttachments(crm.client(), optionsFor())
    await crm.seed({ contexts: context({ selected_order_id: '13' }) })
    const result = await syncAttachments(crm.client(), optionsFor())
    expect(result).toMatchObject({ orderId: '13', attachments: Array(3).fill({ status: 'uploaded' }) })
    expect(JSON.stringify(await openThread(crm))).not.toContain('orders/1/12/')
  })

  it('stores a thread without attachments', async () => {
    const crm = await openCrm(seed)
    const result = await syncAttachments(crm.client(), optionsFor({ thread: { messages: [] } }))
    expect(result).toMatchObject({ status: 'stored', attachments: [], emailThread: { message_count: 0 } })
  })
})

describe('a thread is skipped, and nothing written', () => {
  it.each([
    ['no_context', { contexts: {} }],
    ['no_orders', { contexts: context({ orders_data: [] }) }],
    ['several_orders', { contexts: context({ orders_data: [{ id: 12 }, { id: 13 }] }) }],
    ['storage_not_configured', { storageConfigured: false }],
  ])('%s', async (reason, more) => {
    const crm = await openCrm({ ...seed, ...more })
    expect(await syncAttachments(crm.client(), optionsFor())).toEqual({ status: 'skipped', reason })
    expect((await listLines(crm)).filter((line) => !line.startsWith('GET'))).toEqual([])
  })
})

describe('one attachment’s trouble', () => {
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
    const result = await syncAttachments(
      crm.client(),
      optionsFor({ thread: { messages: [{ id: 'm', attachments }] }, loadAttachment }),
    )
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

  it('leaves the key of an earlier order in place', async () => {
    const crm = await openCrm(seed)
    await syncAttachments(crm.client(), optionsFor())
    await crm.seed({ contexts: context({ selected_order_id: '13' }) })
    const loadAttachment = () => Promise.reject(new Error('offline'))
    await syncAttachments(crm.client(), optionsFor({ loadAttachment }))
    const stored = await readMessages(crm)
    expect(stored[0]?.attachments?.[0]?.storage_key).toBe(`${FOLDER}/logo.png`)
  })

  it('an address that ran out is asked for anew, once', async () => {
    const crm = await openCrm(seed)
    await crm.spoil({ match: '^PUT /upload', status: 403, body: '<Error><Code>AccessDenied</Code></Error>' })
    const result = await syncAttachments(crm.client(), optionsFor())
    expect(result).toMatchObject({ attachments: Array(3).fill({ status: 'uploaded' }) })
    expect((await listLines(crm)).filter((line) => line.includes('presign'))).toHaveLength(4)

    const other = await openCrm(seed)
    await other.spoil({ match: '^PUT /upload', status: 403, times: -1 })
    const failed = await syncAttachments(other.client(), optionsFor())
    expect(failed).toMatchObject({ attachments: Array(3).fill({ status: 'failed', error: { status: 403 } }) })
    expect((await listLines(other)).filter((line) => line.includes('presign'))).toHaveLength(6)
  })

  it('verify tells which keys are not there in the end', async () => {
    const crm = await openCrm(seed)
    // Says that it stored the bytes, and does not.
    await crm.spoil({ match: '^PUT /upload.*quote', status: 200 })
    const result = await syncAttachments(crm.client(), optionsFor({ verify: true }))
    expect(result).toMatchObject({ missingKeys: [`${FOLDER}/quote (1).pdf`] })
  })
})

describe('a run that breaks off', () => {
  it.each(['before the call arrives', 'before its answer arrives'])(
    'at any step, %s, and is run again ends as an unbroken one',
    async (when) => {
      const whole = await openCrm(seed)
      await syncAttachments(whole.client(), optionsFor({ concurrency: 1 }))
      const expected = await readEnd(whole)
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
            const arrives = calls <= step || (isLast && when === 'before its answer arrives')
            const response = arrives ? await fetch(url, init) : null
            if (response && !isLast) return response
            await response?.text()
            crash.abort(new Error('crash'))
            throw new Error('crash')
          },
        })
        const run = syncAttachments(client, optionsFor({ concurrency: 1, signal: crash.signal }))
        await expect(run).rejects.toThrow('crash')
        await syncAttachments(crm.client(), optionsFor())
        expect(await readEnd(crm), `after step ${step}`).toEqual(expected)
      }
    },
  )

  it('rejects with what the signal says, and starts nothing more', async () => {
    const crm = await openCrm(seed)
    const stop = new AbortController()
    const loaded: unknown[] = []
    const loadAttachment = (message: Message, attachment: Attachment) => {
      loaded.push(attachment.filename)
      stop.abort(new Error('window closed'))
      return new Blob([bytesOf(message, attachment)])
    }
    const run = syncAttachments(crm.client(), optionsFor({ concurrency: 1, loadAttachment, signal: stop.signal }))
    await expect(run).rejects.toThrow('window closed')
    expect(loaded).toEqual(['logo.png'])
    expect((await listLines(crm)).filter((line) => !line.startsWith('GET'))).toEqual([])
  })

  it('rejects when the order of the context is not there', async () => {
    const crm = await openCrm({ ...seed, contexts: context({ selected_order_id: '99' }) })
    const run = syncAttachments(crm.client(), optionsFor())
    await expect(run).rejects.toBeInstanceOf(ApiError)
    expect((await listLines(crm)).filter((line) => !line.startsWith('GET'))).toEqual([])
  })

  it('rejects when the thread cannot be stored', async () => {
    const crm = await openCrm(seed)
    await crm.spoil({ match: '^PUT /api', status: 500 })
    await expect(syncAttachments(crm.client(), optionsFor())).rejects.toMatchObject({ status: 500 })
  })
})

describe('side by side', () => {
  const many = Array.from({ length: 12 }, (_, index) => ({ filename: `file-${index}.txt` }))
  const thread = { messages: [{ id: 'm', attachments: many }] }

  it.each([1, 3, 5])('%i at once: reached, and never passed', async (concurrency) => {
    const crm = await openCrm({ ...seed, uploadDelayMs: 40 })
    let held = 0
    let mostHeld = 0
    await syncAttachments(
      crm.client(),
      optionsFor({
        thread,
        concurrency,
        loadAttachment: () => {
          held += 1
          mostHeld = Math.max(mostHeld, held)
          return new Blob(['x'])
        },
        onProgress: ({ phase }) => {
          if (phase === 'finished') held -= 1
        },
      }),
    )
    const { state } = await crm.look()
    expect(state.uploadsAtOnce).toBe(concurrency)
    expect(mostHeld).toBe(concurrency)
    expect(Object.keys(state.files)).toHaveLength(12)
  })

  it.each([0, -1, 1.5, Number.NaN])('%d at once is refused', async (concurrency) => {
    const crm = await openCrm(seed)
    await expect(syncAttachments(crm.client(), optionsFor({ concurrency }))).rejects.toThrow(RangeError)
  })

  it('gets through a rate limit in the middle', async () => {
    const crm = await openCrm(seed)
    await crm.spoil({ match: 'presign', status: 429, headers: { 'retry-after': '3' }, times: 4 })
    const result = await syncAttachments(crm.client(), optionsFor({ thread }))
    expect(result).toMatchObject({ attachments: Array(12).fill({ status: 'uploaded' }) })
    expect(crm.waits).toEqual([3000, 3000, 3000, 3000])
  })
})

describe('progress', () => {
  it('tells loading, uploading and finished of each, in this order', async () => {
    const crm = await openCrm(seed)
    const seen: SyncProgress[] = []
    await syncAttachments(crm.client(), optionsFor({ onProgress: (progress) => seen.push(progress), concurrency: 2 }))
    const ofFirst = seen.filter(({ messageIndex }) => messageIndex === 0)
    expect(ofFirst.map(({ phase, sentBytes, totalBytes }) => [phase, sentBytes, totalBytes])).toEqual([
      ['loading', 0, null],
      ['uploading', 0, 11],
      ['uploading', 11, 11],
      ['finished', 11, 11],
    ])
    const finished = seen.filter(({ phase }) => phase === 'finished')
    expect(finished.map(({ finishedCount, totalCount }) => [finishedCount, totalCount])).toEqual([
      [1, 3],
      [2, 3],
      [3, 3],
    ])
    expect(finished.every(({ outcome }) => outcome?.status === 'uploaded')).toBe(true)
  })

  it.each(['loading', 'uploading', 'finished'])('an error thrown at %s ends the run', async (phase) => {
    const crm = await openCrm(seed)
    const onProgress = (progress: SyncProgress) => {
      if (progress.phase === phase) throw new Error('bad callback')
    }
    await expect(syncAttachments(crm.client(), optionsFor({ onProgress }))).rejects.toThrow('bad callback')
    expect(await openThread(crm)).toBeUndefined()
  })
})

/** A blob that says it is this large. */
function sized(size: number): Blob {
  return Object.defineProperty(new Blob([]), 'size', { value: size })
}
