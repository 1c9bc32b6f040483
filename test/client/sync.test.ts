import { describe, expect, it } from 'vitest'
import { listStorageKeys } from '../../src/client/attachments.ts'
import type { Message, SyncProgress } from '../../src/client/index.ts'
import {
  context,
  FOLDER,
  listLines,
  messages,
  offline,
  openCrm,
  openSynced,
  openThread,
  readEnd,
  readMessages,
  seed,
  sync,
  THREAD_ID,
} from './support.ts'

describe('a run', () => {
  it('stores every attachment with the order, then the whole thread with their keys', async () => {
    const crm = await openCrm(seed)
    const result = await sync(crm, { concurrency: 1, verify: true })
    const marked = expect.stringMatching(/\/logo~[0-9a-f]{16}\.png$/)
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
    const methods = (await listLines(crm)).map((line) => line.split(' ')[0])
    // The context and what is stored, each file, the thread, and what is stored by then.
    expect(methods.join(' ')).toBe('GET GET GET POST PUT POST PUT POST PUT PUT GET GET')
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

  it('uploads nothing the second time, with the same result', async () => {
    const { crm, before } = await openSynced()
    const result = await sync(crm, { loadAttachment: offline })
    expect(result).toMatchObject({ attachments: Array(3).fill({ status: 'already_stored' }) })
    expect(await readEnd(crm)).toEqual(before)
  })

  it('uploads a file again that was deleted from the order', async () => {
    const { crm, before } = await openSynced()
    const { [`${FOLDER}/logo.png`]: _gone, ...files } = before.files
    await crm.seed({ files })
    const result = await sync(crm)
    expect(result).toMatchObject({ attachments: [{ status: 'uploaded' }, { status: 'already_stored' }, {}] })
    expect(await readEnd(crm)).toEqual(before)
  })

  it('uploads nothing if the listing of files is cut: a new name could be that of a file which is not listed', async () => {
    const { crm, before } = await openSynced()
    await crm.seed({ truncated: true })
    await expect(sync(crm)).rejects.toMatchObject({ code: 'unexpected_answer' })
    expect(await readEnd(crm)).toEqual(before)
  })

  it('says of no key that it is missing if the listing is cut by the end', async () => {
    const crm = await openCrm(seed)
    async function loadAttachment() {
      await crm.seed({ truncated: true })
      return new Blob(['x'])
    }
    const result = await sync(crm, { verify: true, loadAttachment })
    expect(result).toMatchObject({ attachments: Array(3).fill({ status: 'uploaded' }), missingKeys: null })
  })

  it('uploads to the new order when the thread moved to another', async () => {
    const { crm } = await openSynced()
    await crm.seed({ contexts: context({ selected_order_id: '13' }) })
    const result = await sync(crm)
    expect(result).toMatchObject({ orderId: '13', attachments: Array(3).fill({ status: 'uploaded' }) })
    expect(JSON.stringify(await openThread(crm))).not.toContain('orders/1/12/')
  })

  it('overwrites no file of another mailbox that has the same name and thread id', async () => {
    const crm = await openCrm(seed)
    const mailboxes = ['a@shop.example', 'b@shop.example', 'c@shop.example']
    for (const status of ['uploaded', 'already_stored']) {
      for (const accountEmail of mailboxes) {
        const loadAttachment = () => new Blob([accountEmail])
        const result = await sync(crm, { accountEmail, loadAttachment })
        expect(result).toMatchObject({ attachments: Array(3).fill({ status }) })
      }
    }
    const { files, threads } = await readEnd(crm)
    for (const accountEmail of mailboxes) {
      const keys = listStorageKeys(threads[`${accountEmail} ${THREAD_ID}`]?.messages as Message[])
      expect(keys.map((key) => files[key]?.body)).toEqual(Array(3).fill(accountEmail))
    }
  })

  it('stores a thread without attachments', async () => {
    const crm = await openCrm(seed)
    const result = await sync(crm, { thread: { messages: [] } })
    expect(result).toMatchObject({ status: 'stored', attachments: [], emailThread: { message_count: 0 } })
  })
})

describe('a thread is skipped without a write, or with storeThread always with the thread alone', () => {
  it.each([
    ['no_context', { contexts: {} }],
    ['no_orders', { contexts: context({ orders_data: [] }) }],
    ['several_orders', { contexts: context({ orders_data: [{ id: 12 }, { id: 13 }] }) }],
    ['order_not_found', { contexts: context({ selected_order_id: '99' }) }],
    ['storage_not_configured', { storageConfigured: false }],
  ])('with %s', async (reason, more) => {
    const crm = await openCrm({ ...seed, ...more })
    const result = await sync(crm)
    expect(result).toEqual({ status: 'skipped', reason, emailThread: null })
    expect((await listLines(crm)).filter((line) => !line.startsWith('GET'))).toEqual([])

    const stored = await sync(crm, { storeThread: 'always' })
    expect(stored).toMatchObject({ status: 'skipped', reason, emailThread: { message_count: 3 } })
    expect(await openThread(crm)).toMatchObject({ subject: 'Shirts', messages })
    expect((await listLines(crm)).filter((line) => !/^GET|^PUT \/api/.test(line))).toEqual([])
  })

  it('with storeThread always it keeps the keys of an earlier order, and is linked later', async () => {
    const { crm, before } = await openSynced()
    await crm.seed({ contexts: {} })
    const result = await sync(crm, { storeThread: 'always' })
    expect(result).toMatchObject({ status: 'skipped', reason: 'no_context' })
    expect(await readEnd(crm)).toEqual(before)

    await crm.seed({ contexts: context() })
    const linked = await sync(crm, { storeThread: 'always' })
    expect(linked).toMatchObject({ status: 'stored', attachments: Array(3).fill({ status: 'already_stored' }) })
  })
})

describe('a thread whose attachments have other ids each time that its mailbox is read', () => {
  const thread = (id: string) => ({
    messages: [{ id: 'm1', attachments: [{ filename: 'logo.png', mail_attachment_id: id }] }],
  })
  const stored = (id: string) => [
    { id: 'm1', attachments: [{ filename: 'logo.png', mail_attachment_id: id, storage_key: `${FOLDER}/logo.png` }] },
  ]

  it('keeps its keys with storeThread always, and when an upload fails', async () => {
    const { crm } = await openSynced({ thread: thread('a1') })
    await crm.seed({ contexts: {} })
    await sync(crm, { thread: thread('b1'), storeThread: 'always' })
    expect(await readMessages(crm)).toEqual(stored('b1'))

    await crm.seed({ contexts: context(), files: {} })
    await sync(crm, { thread: thread('c1'), loadAttachment: offline })
    expect(await readMessages(crm)).toEqual(stored('c1'))
  })
})

describe('concurrency', () => {
  const many = Array.from({ length: 12 }, (_, index) => ({ filename: `file-${index}.txt` }))
  const thread = { messages: [{ id: 'm', attachments: many }] }

  it.each([1, 3, 5])('of %i is reached and never exceeded', async (concurrency) => {
    const crm = await openCrm({ ...seed, uploadDelayMs: 40 })
    let held = 0
    let mostHeld = 0
    await sync(crm, {
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
    })
    const { state } = await crm.look()
    expect(state.uploadsAtOnce).toBe(concurrency)
    expect(mostHeld).toBe(concurrency)
    expect(Object.keys(state.files)).toHaveLength(12)
  })

  it.each([0, -1, 1.5, Number.NaN])('of %d is rejected', async (concurrency) => {
    const crm = await openCrm(seed)
    await expect(sync(crm, { concurrency })).rejects.toThrow(RangeError)
  })

  it('continues after a rate limit', async () => {
    const crm = await openCrm(seed, { match: 'presign', status: 429, headers: { 'retry-after': '3' }, times: 4 })
    const result = await sync(crm, { thread })
    expect(result).toMatchObject({ attachments: Array(12).fill({ status: 'uploaded' }) })
    expect(crm.waits).toEqual([3000, 3000, 3000, 3000])
  })
})

describe('progress', () => {
  it('reports loading, uploading and finished for each, in this order', async () => {
    const crm = await openCrm(seed)
    const seen: SyncProgress[] = []
    await sync(crm, { onProgress: (progress) => seen.push(progress), concurrency: 2 })
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

  it.each(['loading', 'uploading', 'finished'])('ends the run with an error thrown at %s', async (phase) => {
    const crm = await openCrm(seed)
    const onProgress = (progress: SyncProgress) => {
      if (progress.phase === phase) throw new Error('bad callback')
    }
    await expect(sync(crm, { onProgress })).rejects.toThrow('bad callback')
    expect(await openThread(crm)).toBeUndefined()
  })
})
