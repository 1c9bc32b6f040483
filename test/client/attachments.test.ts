import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Plan, planAttachments, toBaseName, withStorageKeys } from '../../src/client/attachments.ts'
import type { Attachment, Message, OrderFile } from '../../src/client/index.ts'
import { presignUpload } from '../../src/resources/files/contract.ts'
import { MAILBOX } from './support.ts'

const FOLDER = 'orders/1/12/email/t'

describe('names', () => {
  it('are ones that the API accepts, whatever the mailbox calls a file', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: fc.oneof(fc.constantFrom('\ud800', '\udc00', '/', 'é'), fc.string()) }),
        (filename) => {
          const [plan] = plansOf([message('m', { filename })])
          if (!plan || !('fileName' in plan)) return
          const read = presignUpload.body.safeParse({ fileName: plan.fileName, size: 1 })
          expect(read.data?.fileName === plan.fileName).toBe(true)
        },
      ),
    )
  })

  it('truncates a name too long for a key at a character boundary before its extension', () => {
    const [plan] = plansOf([message('m', { filename: `${'ж'.repeat(300)}.png` })])
    const name = plan && 'fileName' in plan ? plan.fileName : ''
    expect(name).toMatch(/^ж{100,}~[0-9a-f]{16}\.png$/)
    expect(new TextEncoder().encode(name).length).toBeLessThanOrEqual(255)
  })
})

describe('planAttachments', () => {
  const stored = { filename: 'a.pdf', storage_key: `${FOLDER}/a.pdf` }
  const storedWithId = { ...stored, mail_attachment_id: '1' }

  it.each<[string, Attachment, Attachment, string[], string]>([
    ['its own key is listed', stored, { filename: 'b.pdf' }, ['a.pdf'], 'already_stored'],
    ['its own key is not listed', stored, { filename: 'b.pdf' }, ['b.pdf'], 'upload'],
    ['the stored match has a listed key', { filename: 'a.pdf' }, stored, ['a.pdf'], 'already_stored'],
    ['the stored match has a key that is not listed', { filename: 'a.pdf' }, stored, [], 'upload'],
    ['the file is listed but no key is stored', { filename: 'a.pdf' }, { filename: 'a.pdf' }, ['a.pdf'], 'upload'],
    ['another name', { filename: 'b.pdf' }, stored, ['a.pdf'], 'upload'],
    ['one id, another name', { filename: 'b', mail_attachment_id: '1' }, storedWithId, ['a.pdf'], 'already_stored'],
    ['one name, another id', { filename: 'a.pdf', mail_attachment_id: '2' }, storedWithId, ['a.pdf'], 'already_stored'],
    ['one name, only one id', { filename: 'a.pdf', mail_attachment_id: '1' }, stored, ['a.pdf'], 'already_stored'],
    ['no name', { mime_type: 'image/png' }, stored, ['a.pdf'], 'nameless'],
    ['too large', { filename: 'b', size_bytes: 157_286_401 }, stored, ['a.pdf'], 'too_large'],
    ['of the maximum size', { filename: 'b', size_bytes: 157_286_400 }, stored, ['a.pdf'], 'upload'],
  ])('plans an attachment for the case: %s', (_name, attachment, storedAttachment, listed, action) => {
    const [plan] = plansOf([message('m', attachment)], [message('m', storedAttachment)], listed)
    expect(actionOf(plan)).toBe(action)
  })

  it('never assigns the name of a later attachment to an earlier one', () => {
    const messages = [message('m1', { filename: 'a.pdf' }), message('m2', stored)]
    expect(plansOf(messages, [], ['a.pdf'])).toMatchObject([
      { fileName: expect.stringMatching(/^a~[0-9a-f]{16}\.pdf$/) },
      { outcome: { status: 'already_stored' } },
    ])
  })

  it('does not match an id with the same id of another message', () => {
    const part = { filename: 'a.pdf', mail_attachment_id: 'part-2' }
    const storedMessages = [message('old', { ...part, storage_key: `${FOLDER}/a.pdf` })]
    const [plan] = plansOf([message('new', part)], storedMessages, ['a.pdf'])
    expect(plan).toMatchObject({ fileName: expect.stringMatching(/^a~[0-9a-f]{16}\.pdf$/) })
  })

  it.each(['sent_at', 'internal_date'])('matches a message without an id by its %s, wherever it stands', (name) => {
    const of = (time: string, attachment: Attachment) => ({ ...message(undefined, attachment), [name]: time })
    const plain = { filename: 'a.pdf' }
    const messages = [of('2026-02-01T00:00:00Z', plain), of('2026-01-01T00:00:00Z', plain)]
    const plans = planAttachments(messages, [of('2026-01-01T00:00:00Z', stored)], filesOf(['a.pdf']), MAILBOX)
    expect(plans.map(actionOf)).toEqual(['upload', 'already_stored'])
  })

  it('matches an id across messages without ids', () => {
    const part = { filename: 'a.pdf', mail_attachment_id: 'x' }
    const storedMessages = [message(undefined, { ...part, storage_key: `${FOLDER}/a.pdf` })]
    const [plan] = plansOf([message(undefined), message(undefined, part)], storedMessages, ['a.pdf'])
    expect(actionOf(plan)).toBe('already_stored')
  })

  it('preserves the key when the mailbox changes its ids', () => {
    const of = (id: string): Message[] => [
      message('m1', { filename: 'logo.png', mail_attachment_id: `${id}1` }),
      message('m2', { filename: 'logo.png', mail_attachment_id: `${id}2` }),
    ]
    const first = carryOut(of('a'), [], [])
    const second = carryOut(of('b'), first.messages, first.files)
    expect(keysOf(second.messages)).toEqual(keysOf(first.messages))
    expect(second.files).toEqual(first.files)
    expect(second.uploaded).toEqual([])
  })

  it('does not give an attachment by its name what belongs to another one by its id', () => {
    const part = (id: string) => ({ filename: 'a.pdf', mail_attachment_id: id })
    const first = carryOut([message('m', part('1'), part('2'))], [], [])
    const second = carryOut([message('m', part('2'), part('3'))], first.messages, first.files)
    const [, keyOfSecond] = keysOf(first.messages)
    expect(keysOf(second.messages)).toEqual([keyOfSecond, expect.not.stringContaining(String(keyOfSecond))])
    expect(second.uploaded).toHaveLength(1)
  })

  it('uploads both of two attachments with one key, under new names', () => {
    const storedMessages = ['m1', 'm2'].map((id) => message(id, { ...stored }))
    const messages = ['m1', 'm2'].map((id) => message(id, { filename: 'a.pdf' }))
    const result = carryOut(messages, storedMessages, filesOf(['a.pdf']))
    for (const key of keysOf(result.messages)) expect(key).toMatch(/^orders\/1\/12\/email\/t\/a~[0-9a-f]{16}\.pdf$/)
    expect(new Set(result.uploaded).size).toBe(2)
  })

  it('ignores values that are no attachments', () => {
    const odd = { id: 'm', attachments: [null, 'x', { filename: 'a' }] } as unknown as Message
    const none = { id: 'n', attachments: 'many' } as unknown as Message
    expect(plansOf([odd, none], [none, odd])).toHaveLength(1)
    expect(withStorageKeys([odd, none], plansOf([odd, none], [odd]), [])).toEqual([odd, none])
  })
})

const filename = fc.constantFrom(
  'a.png',
  'b.png',
  'x/a.png',
  'A.png',
  'a',
  '.png',
  'é.png',
  'e\u0301.png',
  'ж'.repeat(200),
  '..',
)
const attachments = fc.array(
  fc.record({ filename, mail_attachment_id: fc.constantFrom('1', '2', '3') }, { requiredKeys: ['filename'] }),
  { maxLength: 4 },
)
const thread = fc
  .uniqueArray(fc.record({ id: fc.constantFrom('m1', 'm2', 'm3', 'm4', 'm5'), attachments }), {
    selector: ({ id }) => id,
    maxLength: 5,
  })
  // Two parts of one message never have one id.
  .map((messages) => messages.map((each) => ({ ...each, attachments: each.attachments.filter(isFirstOfItsId) })))

describe('for any thread', () => {
  it('no two attachments share a key, and each key fits', () => {
    fc.assert(
      fc.property(thread, (messages) => {
        const { uploaded } = carryOut(messages, [], [])
        expect(new Set(uploaded).size).toBe(uploaded.length)
        for (const name of uploaded) {
          expect(toBaseName(name)).toBe(name)
          expect(new TextEncoder().encode(name).length).toBeLessThanOrEqual(255)
        }
      }),
    )
  })

  it('a second run uploads and changes nothing', () => {
    fc.assert(
      fc.property(thread, (messages) => {
        const first = carryOut(messages, [], [])
        expect(carryOut(messages, first.messages, first.files)).toEqual({ ...first, uploaded: [] })
      }),
    )
  })

  const one = (filename: string, mail_attachment_id: string) => ({ filename, mail_attachment_id })
  it.each<[string, Message[]]>([
    ['a name that ends in a space', [message('m', one('logo.png ', 'a'))]],
    [
      'numbers of parts in messages without ids',
      [message(undefined, one('a', '2')), message(undefined, one('b', '2'))],
    ],
    ['an id that two attachments have', [message('m', one('a', '2'), one('a', '2'))]],
  ])('a second run uploads and changes nothing with %s', (_name, messages) => {
    const first = carryOut(messages, [], [])
    expect(carryOut(messages, first.messages, first.files)).toEqual({ ...first, uploaded: [] })
  })

  it('stored attachments keep their keys and bytes when messages are added, removed or reordered', () => {
    fc.assert(
      fc.property(thread, thread, (before, after) => {
        // A message of one id is the same message.
        const known = new Map(before.map((each) => [each.id, each]))
        const later = after.map((each) => known.get(each.id) ?? each)
        const first = carryOut(before, [], [])
        const second = carryOut(later, first.messages, first.files)
        const oldNames = first.files.map((file) => file.objectName)
        expect(second.uploaded.filter((name) => oldNames.includes(name))).toEqual([])
        for (const each of second.messages) {
          const earlier = first.messages.find(({ id }) => id === each.id)
          if (earlier) expect(each).toEqual(earlier)
        }
      }),
    )
  })

  it('interrupted runs leave at most one unused file of each attachment, and overwrite no other’s', () => {
    const crashes = fc.array(fc.nat({ max: 20 }), { minLength: 1, maxLength: 4 })
    fc.assert(
      fc.property(thread, crashes, (messages, counts) => {
        const { uploaded: wanted } = carryOut(messages, [], [])
        const writers = new Map<string, number>()
        for (const count of [...counts, wanted.length]) {
          const run = carryOut(messages, [], filesOf([...writers.keys()]))
          expect(new Set(run.uploaded).size).toBe(wanted.length)
          for (const [index, name] of run.uploaded.slice(0, count).entries()) {
            expect(writers.get(name) ?? index).toBe(index)
            writers.set(name, index)
          }
        }
        for (const writer of writers.values()) {
          expect([...writers.values()].filter((each) => each === writer).length).toBeLessThanOrEqual(2)
        }
      }),
    )
  })

  it('no file that another mailbox has uploaded is overwritten', () => {
    fc.assert(
      fc.property(thread, thread, (messages, others) => {
        const other = carryOut(others, [], [], 'other@shop.example')
        const again = carryOut(others, [], other.files, 'other@shop.example')
        const { uploaded } = carryOut(messages, [], again.files)
        expect(uploaded.filter((name) => again.files.some((file) => file.objectName === name))).toEqual([])
      }),
    )
  })
})

function message(id: string | undefined, ...attachments: Attachment[]): Message {
  return { ...(id !== undefined && { id }), attachments }
}

function filesOf(names: string[]): OrderFile[] {
  return names.map((objectName) => ({
    path: `${FOLDER}/${objectName}`,
    objectName,
    length: 1,
    lastChanged: '',
    source: 'email',
  }))
}

const plansOf = (messages: Message[], storedMessages: Message[] = [], listed: string[] = []) =>
  planAttachments(messages, storedMessages, filesOf(listed), MAILBOX)

/** Executes the plan as a run would, without a network. */
function carryOut(messages: Message[], storedMessages: Message[], files: OrderFile[], account = MAILBOX) {
  const plans = planAttachments(messages, storedMessages, files, account)
  const uploaded = plans.flatMap((plan) => ('fileName' in plan ? plan.fileName : []))
  const keys = plans.map((plan) => {
    if ('fileName' in plan) return `${FOLDER}/${plan.fileName}`
    return 'storageKey' in plan.outcome ? plan.outcome.storageKey : null
  })
  const names = new Set([...files.map((file) => file.objectName), ...uploaded])
  return { uploaded, files: filesOf([...names]), messages: withStorageKeys(messages, plans, keys) }
}

/** `upload`, or the status of the outcome without an upload. */
const actionOf = (plan: Plan | undefined) => (plan && 'fileName' in plan ? 'upload' : plan?.outcome.status)

function keysOf(messages: Message[]) {
  return messages.flatMap((each) => each.attachments ?? []).map((attachment) => attachment.storage_key)
}

function isFirstOfItsId(each: { mail_attachment_id?: string }, index: number, all: { mail_attachment_id?: string }[]) {
  const id = each.mail_attachment_id
  return id === undefined || all.findIndex((other) => other.mail_attachment_id === id) === index
}
