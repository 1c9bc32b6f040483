import { exports } from 'cloudflare:workers'
import { beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { isolateMemory } from '../../../src/kernel/http/body.ts'
import { migrate, mintCompany, request, type TestCompany } from '../../support/app.ts'
import { stopTime } from '../../support/time.ts'
import { freshThreadId, MAILBOX, noise, sendText, threadPath } from './support.ts'

let company: TestCompany

beforeAll(async () => {
  await migrate()
  company = await mintCompany()
})

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

/** Begins a GET and takes the first part of its body. */
async function beginGet(id: string) {
  const response = await exports.default.fetch(request(company.token, 'GET', threadPath(id, MAILBOX)))
  expect(response.status).toBe(200)
  const reader = (response.body ?? new ReadableStream()).getReader()
  const first = (await reader.read()).value as Uint8Array
  const rest = async () => {
    const parts = [first]
    for (;;) {
      const { value, done } = await reader.read()
      if (done) return new TextDecoder().decode(await new Blob(parts).arrayBuffer())
      parts.push(value as Uint8Array)
    }
  }
  return { rest, cancel: () => reader.cancel() }
}

describe('a slowly read GET of a large thread', () => {
  it.each([
    ['in the row', mediumThread],
    ['in R2', largeThread],
  ])('completes as it began when other content replaces what is %s', async (_, make) => {
    const text = make()
    const id = await stored(text)
    const { rest } = await beginGet(id)
    expect((await sendText(company, 'PUT', threadPath(id), make())).status).toBe(200)
    const { email_thread } = JSON.parse(await rest())
    expect(JSON.stringify(email_thread.messages) === JSON.stringify(JSON.parse(text).messages)).toBe(true)
    expect(isolateMemory.usedBytes).toBe(0)
  })

  it.each([
    ['of the database', mediumThread],
    ['of R2', largeThread],
  ])('completes with its first fields when the same content %s is stored again', async (_, make) => {
    const text = make({ subject: 'before' })
    const id = await stored(text)
    const { rest } = await beginGet(id)
    const again = await sendText(company, 'PUT', threadPath(id), text.replace('before', 'behind'))
    expect(again.status).toBe(200)
    const { email_thread } = JSON.parse(await rest())
    expect(email_thread.subject).toBe('before')
    expect(JSON.stringify(email_thread.messages) === JSON.stringify(JSON.parse(text).messages)).toBe(true)
    expect(isolateMemory.usedBytes).toBe(0)
  })
})

describe('the memory of a large thread', () => {
  it('is released when its response is sent, canceled or dropped for HEAD', async () => {
    const text = largeThread()
    const id = await stored(text)
    expect(isolateMemory.usedBytes).toBe(0)
    const { cancel } = await beginGet(id)
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

  it('covers only the bytes that have arrived, however many are announced', async () => {
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
    await expect.poll(() => isolateMemory.usedBytes).toBe(1_000_001)
    fail()
    await pending.catch(() => undefined)
    await expect.poll(() => isolateMemory.usedBytes).toBe(0)
  })
})

describe('many large PUTs and GETs at once', () => {
  it('wait for each other and all succeed', async () => {
    const texts = Array.from({ length: 8 }, () => largeThread())
    const ids = await Promise.all(texts.map(stored))
    const responses = await Promise.all(ids.map((id) => sendText(company, 'GET', threadPath(id, MAILBOX))))
    for (const [index, response] of responses.entries()) {
      const [sent, received] = [JSON.parse(texts[index] ?? ''), JSON.parse(response.text).email_thread]
      expect(received.messages[0].text === sent.messages[0].text).toBe(true)
    }
    expect(isolateMemory.usedBytes).toBe(0)
  })
})
