import { exports } from 'cloudflare:workers'
import { beforeEach, describe, expect, it } from 'vitest'
import { isolateMemory } from '../../../src/kernel/http/isolate.ts'
import { mintCompany, request } from '../../support/app.ts'
import { moveTime, stopTime } from '../../support/time.ts'
import { freshThreadId, MAILBOX, noise, sendText, threadPath } from './support.ts'

const company = await mintCompany()

// However slow the machine, no request waits too long for the memory of the others.
beforeEach(stopTime)

/** JSON text of a thread whose content R2 holds. */
function largeThread(fields: object = {}): string {
  return JSON.stringify({ account_email: MAILBOX, ...fields, messages: [{ text: noise(4_000_000) }] })
}

/** Of one whose content is in its row, and too large to be read at once with it. */
function mediumThread(fields: object = {}): string {
  const text = `${noise(700_000)}${'x'.repeat(900_000)}${noise(300_000)}`
  return JSON.stringify({ account_email: MAILBOX, ...fields, messages: [{ text }] })
}

async function stored(text: string): Promise<string> {
  const id = freshThreadId()
  expect((await sendText(company, 'PUT', threadPath(id), text)).status).toBe(200)
  return id
}

/** Begins a request, a GET unless it has a body, and takes the first part of its response. */
async function begin(id: string, body?: string) {
  const sent =
    body === undefined
      ? request(company.token, 'GET', threadPath(id, MAILBOX))
      : request(company.token, 'PUT', threadPath(id), body)
  const response = await exports.default.fetch(sent)
  expect(response.status).toBe(200)
  const reader = (response.body ?? new ReadableStream()).getReader()
  const parts: Uint8Array[] = []
  /** Takes at least so many more bytes, or all. @returns the text so far */
  const take = async (bytes = Number.POSITIVE_INFINITY) => {
    for (let taken = 0; taken < bytes; ) {
      const { value, done } = await reader.read()
      if (done) break
      parts.push(value as Uint8Array)
      taken += value.length
    }
    return new TextDecoder().decode(await new Blob(parts).arrayBuffer())
  }
  await take(1)
  return { take, rest: () => take(), cancel: () => reader.cancel() }
}

it.each([
  ['other content replaces what is in the row', mediumThread, () => mediumThread({ subject: 'behind' })],
  ['other content replaces what is in R2', largeThread, () => largeThread({ subject: 'behind' })],
  ['the same content is stored again in the row', mediumThread, (text: string) => text.replace('before', 'behind')],
  ['the same content is stored again in R2', largeThread, (text: string) => text.replace('before', 'behind')],
])('a slowly read GET of a large thread completes as it began when %s', async (_, make, change) => {
  const text = make({ subject: 'before' })
  const id = await stored(text)
  const { rest } = await begin(id)
  expect((await sendText(company, 'PUT', threadPath(id), change(text))).status).toBe(200)
  const { email_thread } = JSON.parse(await rest())
  expect(email_thread.subject).toBe('before')
  expect(JSON.stringify(email_thread.messages) === JSON.stringify(JSON.parse(text).messages)).toBe(true)
  expect(isolateMemory.usedBytes).toBe(0)
})

describe.each<[string, (text: string) => string | undefined]>([
  ['a GET', () => undefined],
  ['a PUT of other content', (text) => text.replace('"a":1', '"a":2')],
  ['an unchanged PUT', (text) => text],
])('the response of %s, when others need memory', (_, bodyOf) => {
  async function beginSlowly() {
    const labels = Array.from({ length: 8 }, () => 'x'.repeat(1_000_000))
    const text = JSON.stringify({ account_email: MAILBOX, labels, messages: [{ a: 1 }] })
    const id = await stored(text)
    return { labels, ...(await begin(id, bodyOf(text))) }
  }

  /** Another request takes memory. @returns what this one still has */
  async function needMemory(): Promise<number> {
    const other = isolateMemory.open()
    await other.resize(1)
    const left = isolateMemory.usedBytes - 1
    other.release()
    return left
  }

  it('fails if nobody has read it for a minute', async () => {
    const { rest } = await beginSlowly()
    expect(await needMemory()).toBeGreaterThan(0)
    moveTime(61_000)
    expect(await needMemory()).toBe(0)
    await expect(rest()).rejects.toThrow()
  })

  it('goes on while the caller reads it, however slowly', async () => {
    const { labels, take, rest } = await beginSlowly()
    for (let round = 0; round < 4; round++) {
      moveTime(40_000)
      await take(600_000)
      expect(await needMemory()).toBeGreaterThan(0)
    }
    expect(JSON.parse(await rest()).email_thread.labels).toEqual(labels)
  })
})

describe('the memory of a large thread', () => {
  it('is released when its response is sent, canceled or dropped for HEAD', async () => {
    const text = largeThread()
    const id = await stored(text)
    expect(isolateMemory.usedBytes).toBe(0)
    const { cancel } = await begin(id)
    expect(isolateMemory.usedBytes).toBeGreaterThan(0)
    await cancel()
    await expect.poll(() => isolateMemory.usedBytes).toBe(0)
    await exports.default.fetch(request(company.token, 'HEAD', threadPath(id, MAILBOX)))
    expect(isolateMemory.usedBytes).toBe(0)
    await sendText(company, 'PUT', threadPath(id), text)
    expect(isolateMemory.usedBytes).toBe(0)
  })

  it('is released when its body is invalid', async () => {
    for (const body of [largeThread().slice(1), `${largeThread()}}`, `{"x":"${'y'.repeat(3_000_000)}"}`]) {
      expect((await sendText(company, 'PUT', threadPath(freshThreadId()), body)).status).toBe(400)
      expect(isolateMemory.usedBytes).toBe(0)
    }
  })

  it('covers only buffers of the bytes that have arrived, however many are announced', async () => {
    let push: (bytes: number) => void = () => undefined
    let fail: () => void = () => undefined
    const body: ReadableStream<Uint8Array> = new ReadableStream({
      type: 'bytes',
      start(controller) {
        push = (bytes) => controller.enqueue(new Uint8Array(bytes).fill(32))
        fail = () => controller.error(new Error('The sender is gone.'))
      },
    })
    const headers = { authorization: `Bearer ${company.token}`, 'content-type': 'application/json' }
    const url = `https://api.test/api/v1${threadPath(freshThreadId())}`
    const pending = exports.default.fetch(
      new Request(url, { method: 'PUT', body, headers: { ...headers, 'content-length': '26214400' } }),
    )
    push(1)
    await sendText(company, 'GET', '/clients')
    expect(isolateMemory.usedBytes).toBe(0)
    push(1_000_000)
    await expect.poll(() => isolateMemory.usedBytes).toBe(1_048_576)
    fail()
    await pending.catch(() => undefined)
    await expect.poll(() => isolateMemory.usedBytes).toBe(0)
  })
})

it('many large PUTs and GETs at once wait for each other and all succeed', async () => {
  const texts = Array.from({ length: 8 }, () => largeThread())
  const ids = await Promise.all(texts.map(stored))
  const responses = await Promise.all(ids.map((id) => sendText(company, 'GET', threadPath(id, MAILBOX))))
  for (const [index, response] of responses.entries()) {
    const [sent, received] = [JSON.parse(texts[index] ?? ''), JSON.parse(response.text).email_thread]
    expect(received.messages[0].text === sent.messages[0].text).toBe(true)
  }
  expect(isolateMemory.usedBytes).toBe(0)
})
