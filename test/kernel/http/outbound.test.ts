import { Buffer } from 'node:buffer'
import { describe, expect, inject, it, vi } from 'vitest'
import { isolateMemory, SMALL_BODY_BYTES } from '../../../src/kernel/http/isolate.ts'
import { callOutside, charsetOf } from '../../../src/kernel/http/outbound.ts'
import type { Fault } from '../../../src/simulators/kit.ts'
import { look, spoil } from '../../../src/simulators/steer.ts'

const MAX_BYTES = 10_000

/** The address of a server that does as the fault says. */
async function serve(fault: Fault): Promise<string> {
  const url = `${inject('supplierBUrl')}/t/secret-${crypto.randomUUID()}`
  await spoil(url, fault)
  return url
}

async function ask(fault: Fault, timeoutMs = 5_000): Promise<string> {
  const url = await serve(fault)
  return callOutside({ url, method: 'GET', headers: {} }, timeoutMs, ({ readText }) => readText(MAX_BYTES))
}

describe('a call to an outside system', () => {
  it.each<[string, Fault, string]>([
    ['a response that does not come', { delayMs: 3_000 }, 'timeout'],
    ['a body that stops coming', { body: 'x'.repeat(900), stallAfterBytes: 500 }, 'timeout'],
    ['a connection that is closed', { destroy: true }, 'network'],
    ['a body that is cut', { body: 'x'.repeat(900), cutAfterBytes: 500 }, 'cut'],
    ['a body over the limit', { body: 'x'.repeat(MAX_BYTES + 1) }, 'too_large'],
    ['bytes that are not UTF-8', { body: 'caf\u00e9', encoding: 'latin1' }, 'charset'],
    ['an unknown charset', { body: 'x', headers: { 'content-type': 'text/plain; charset=klingon' } }, 'charset'],
  ])('fails for %s', async (_, fault, failure) => {
    const call = ask(fault, failure === 'timeout' ? 200 : 5_000)
    await expect(call).rejects.toMatchObject({ name: 'OutboundError', failure })
  })

  it('carries nothing of the other side in its error', async () => {
    const url = await serve({ body: 'secret'.repeat(MAX_BYTES) })
    const request = { url, method: 'GET', headers: { authorization: 'secret' } } as const
    const error = await callOutside(request, 5_000, ({ readText }) => readText(MAX_BYTES)).catch((thrown) => thrown)
    expect([error.message, error.cause, JSON.stringify(error)].join()).not.toContain('secret')
  })

  it.each(['x'.repeat(MAX_BYTES), '\u65e5\u672c'.repeat(1_500)])(
    'reads a body of exactly the limit, and characters that lie across two chunks',
    async (body) => expect(await ask({ body })).toBe(body),
  )

  it('follows no redirect', async () => {
    const url = await serve({})
    await spoil(url, { status: 307, headers: { location: `${url}/elsewhere` } })
    const status = await callOutside({ url, method: 'GET', headers: {} }, 5_000, async (response) => response.status)
    expect(status).toBe(307)
    expect((await look(url)).calls).toHaveLength(1)
  })

  it('gives what its reader throws', async () => {
    const url = await serve({ body: 'x' })
    const refuse = () => Promise.reject(new Error('refused'))
    await expect(callOutside({ url, method: 'GET', headers: {} }, 5_000, refuse)).rejects.toThrow('refused')
  })
})

describe('the memory of a body', () => {
  /** Reads a body of this many bytes. `use` runs while the text is in use. */
  async function read(bytes: number, use = () => {}, timeoutMs = 5_000): Promise<void> {
    const url = await serve({ body: 'x'.repeat(bytes) })
    return callOutside({ url, method: 'GET', headers: {} }, timeoutMs, async ({ readText }) => {
      expect(await readText(2 * SMALL_BODY_BYTES)).toHaveLength(bytes)
      use()
    })
  }

  it('is leased from that of all large bodies until the text has been used', async () => {
    const before = isolateMemory.usedBytes
    const leased: number[] = []
    const note = () => void leased.push(isolateMemory.usedBytes - before)
    await read(SMALL_BODY_BYTES, note)
    await read(2 * SMALL_BODY_BYTES, note)
    const refusal = read(2 * SMALL_BODY_BYTES, () => {
      throw new Error('refused')
    })
    await expect(refusal).rejects.toThrow('refused')
    expect([...leased, isolateMemory.usedBytes - before]).toEqual([0, 8 * SMALL_BODY_BYTES, 0])
  })

  it('is leased once while the body comes, and given back when a large body is silent for two seconds', async () => {
    const [before, sent] = [isolateMemory.usedBytes, 600_000]
    const url = await serve({ body: 'x'.repeat(900_000), stallAfterBytes: sent })
    const startMs = Date.now()
    const call = callOutside({ url, method: 'GET', headers: {} }, 20_000, ({ readText }) => readText(900_000))
    const failed = expect(call).rejects.toMatchObject({ failure: 'timeout' })
    await vi.waitUntil(() => isolateMemory.usedBytes - before >= sent, 15_000)
    expect(isolateMemory.usedBytes - before).toBe(sent)
    await failed
    expect([isolateMemory.usedBytes - before, Date.now() - startMs < 15_000]).toEqual([0, true])
  })

  it('is that of its bytes when they come one by one', async () => {
    let left = 1_000
    // The runtime gives each of them in a buffer of this size.
    const pull = (controller: ReadableByteStreamController) => {
      if (left-- > 0) controller.enqueue(new Uint8Array(new ArrayBuffer(4_096), 0, 1))
      else controller.close()
    }
    const fetching = vi.spyOn(globalThis, 'fetch')
    fetching.mockResolvedValue(new Response(new ReadableStream({ type: 'bytes', pull })))
    const join = vi.spyOn(Buffer, 'concat')
    const request = { url: 'https://1.1.1.1/', method: 'GET', headers: {} } as const
    const text = callOutside(request, 5_000, ({ readText }) => readText(MAX_BYTES))
    const length = await text.then((read) => read.length).finally(() => fetching.mockRestore())
    const held = (join.mock.calls as [Uint8Array[]][]).flatMap(([all]) => all.map(({ buffer }) => buffer.byteLength))
    join.mockRestore()
    expect([length, held.length > 0]).toEqual([1_000, true])
    expect(held.reduce((sum, bytes) => sum + bytes, 0)).toBeLessThan(100_000)
  })

  it('is waited for until the deadline of the call, and not by a small body', async () => {
    const other = isolateMemory.open()
    await other.resize(30_000_000)
    try {
      const late = read(2 * SMALL_BODY_BYTES, undefined, 500)
      await read(SMALL_BODY_BYTES)
      // The other system is not to blame.
      await expect(late).rejects.toMatchObject({ kind: 'unavailable', headers: { 'Retry-After': '10' } })
    } finally {
      other.release()
    }
    await read(2 * SMALL_BODY_BYTES)
  })
})

const xml = (encoding: string) => `<?xml version="1.0" encoding="${encoding}"?><a/>`
it.each<[string, string, string | null, string]>([
  ['UTF-8 without any word of it', 'x', null, 'utf-8'],
  ['that of the Content-Type', 'x', 'text/xml; charset=ISO-8859-1', 'ISO-8859-1'],
  ['a quoted one', 'x', 'text/xml; action="a"; Charset = "shift_jis"', 'shift_jis'],
  ['UTF-8 where it is left blank', 'x', 'text/xml; charset=', 'utf-8'],
  ['that of the XML declaration', xml('windows-1250'), 'text/xml', 'windows-1250'],
  ['of single quotes', `<?xml version='1.0' encoding='ISO-8859-15' ?><a/>`, null, 'ISO-8859-15'],
  ['none of a later element', '<?xml version="1.0"?><a encoding="x"/>', null, 'utf-8'],
  ['the Content-Type before the declaration', xml('utf-8'), 'text/xml;charset=latin1', 'latin1'],
])('the charset of a body is %s', (_, start, contentType, expected) => {
  expect(charsetOf(new TextEncoder().encode(start), contentType)).toBe(expected)
})
