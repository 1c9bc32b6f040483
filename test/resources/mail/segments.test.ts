import { Buffer } from 'node:buffer'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { fromSegment, hashOf, SEGMENT_BYTES, toSegments } from '../../../src/resources/mail/segments.ts'

/** Incompressible bytes. */
function noise(length: number): Uint8Array {
  const bytes = new Uint8Array(length)
  for (let at = 0; at < length; at += 65_536) crypto.getRandomValues(bytes.subarray(at, at + 65_536))
  return bytes
}

describe('segments', () => {
  it('restore the concatenation of any pieces', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 300 })), (pieces) => {
        const segments = [...toSegments(pieces)]
        expect([...Buffer.concat(segments.map(fromSegment))]).toEqual([...Buffer.concat(pieces)])
      }),
    )
  })

  it.each([0, 1, SEGMENT_BYTES - 1, SEGMENT_BYTES, SEGMENT_BYTES + 1, 2 * SEGMENT_BYTES, 5_000_003])(
    'of %i incompressible bytes stay under the size limit of a value',
    (length) => {
      const bytes = noise(length)
      const pieces = [bytes.subarray(0, length / 3), bytes.subarray(length / 3, length / 2), bytes.subarray(length / 2)]
      const segments = [...toSegments(pieces)]
      expect(segments).toHaveLength(Math.ceil(length / SEGMENT_BYTES))
      for (const segment of segments) expect(segment.length).toBeLessThan(1_900_000)
      expect(hashOf(segments.map(fromSegment))).toBe(hashOf([bytes]))
    },
  )

  it('are small for repetitive text', () => {
    const text = new TextEncoder().encode('<p style="margin:0">Please confirm the proof.</p>'.repeat(40_000))
    const stored = [...toSegments([text])].reduce((length, segment) => length + segment.length, 0)
    expect(stored).toBeLessThan(text.length / 5)
  })
})

describe('the hash', () => {
  it('is SHA-256 of the concatenated pieces', () => {
    expect(hashOf([])).toBe('e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855')
    const abc = 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'
    const bytes = new TextEncoder().encode('abc')
    expect(hashOf([bytes])).toBe(abc)
    expect(hashOf([bytes.subarray(0, 1), bytes.subarray(1, 1), bytes.subarray(1)])).toBe(abc)
  })
})
