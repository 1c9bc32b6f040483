import { Buffer } from 'node:buffer'
import { gunzipSync } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { compress, decompress, hashOf } from '../../../src/resources/mail/content.ts'
import { noiseBytes } from './support.ts'

const decompressed = async (content: Uint8Array[]) => Buffer.concat(await Array.fromAsync(decompress(content)))

/* Of any size, and how small it is, is asserted through the API: `size.slow.test.ts`, `hops.test.ts`. */

describe('compressed content', () => {
  it('has the concatenation of any pieces', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.uint8Array({ maxLength: 300 })), async (pieces) => {
        const content = await compress(pieces)
        expect([...(await decompressed(content))]).toEqual([...Buffer.concat(pieces)])
        expect([...gunzipSync(Buffer.concat(content))]).toEqual([...Buffer.concat(pieces)])
      }),
    )
  })

  it.each([
    ['cut off', (bytes: Uint8Array) => bytes.subarray(0, -9)],
    ['of another byte', (bytes: Uint8Array) => bytes.map((byte, at) => (at === bytes.length - 100 ? byte ^ 1 : byte))],
  ])('that is %s is an error', async (_, damage) => {
    const bytes = damage(Buffer.concat(await compress([noiseBytes(400_000)])))
    await expect(decompressed([bytes])).rejects.toThrow()
    expect(() => gunzipSync(bytes)).toThrow()
  })
})

it('the hash is SHA-256 of the concatenated pieces', () => {
  expect(hashOf([])).toBe('e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855')
  const abc = 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'
  const bytes = new TextEncoder().encode('abc')
  expect(hashOf([bytes])).toBe(abc)
  expect(hashOf([bytes.subarray(0, 1), bytes.subarray(1, 1), bytes.subarray(1)])).toBe(abc)
})
