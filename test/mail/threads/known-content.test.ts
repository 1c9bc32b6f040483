import { describe, expect, it } from 'vitest'
import { parseThread } from '../../../src/mail/threads/input.ts'
import { type Hashed, keepContent, keptContent } from '../../../src/mail/threads/known-content.ts'

const encoder = new TextEncoder()

/** Content that is a part of a body of so many bytes. */
function contentOf(bytes: number): Hashed {
  const body = '{"account_email":"a@b.example","messages":[{}],"labels":["x"],"padding":""}'
  const padded = body.replace('""}', `"${'x'.repeat(bytes - body.length)}"}`)
  return { content: parseThread(encoder.encode(padded)).content, hash: String(bytes) }
}

describe('kept content', () => {
  it('is that of its company and thread', () => {
    const [one, two] = [contentOf(100), contentOf(200)]
    keepContent(1, 'x', one)
    keepContent(2, 'x', two)
    expect([keptContent(1, 'x'), keptContent(2, 'x'), keptContent(1, 'y')]).toEqual([one, two, undefined])
    keepContent(1, 'x', two)
    expect(keptContent(1, 'x')).toBe(two)
  })

  it('holds at most 8 MB of bodies, the latest', () => {
    for (let id = 0; id < 100; id++) {
      keepContent(3, String(id), contentOf(200_000))
      // The first one comes again and again.
      if (id < 99) keepContent(3, '0', contentOf(200_000))
    }
    const kept = Array.from({ length: 100 }, (_, id) => id).filter((id) => keptContent(3, String(id)))
    expect(kept.length).toBe(39)
    expect(kept[0]).toBe(0)
    expect(kept.slice(1)).toEqual(Array.from({ length: kept.length - 1 }, (_, at) => 101 - kept.length + at))
  })

  it('holds few of the smallest, whose own size is not what they take', () => {
    for (let id = 0; id < 6_000; id++) keepContent(4, String(id), contentOf(100))
    const kept = Array.from({ length: 6_000 }, (_, id) => id).filter((id) => keptContent(4, String(id)))
    expect(kept.length).toBeGreaterThan(3_500)
    expect(kept.length).toBeLessThanOrEqual(4_000)
  })
})
