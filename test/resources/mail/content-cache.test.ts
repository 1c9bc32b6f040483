import { describe, expect, it } from 'vitest'
import { type Content, contentCache, parseThread } from '../../../src/resources/mail/thread-input.ts'

const encoder = new TextEncoder()

/** Content that is a part of a body of so many bytes. */
function contentOf(bytes: number): Content {
  const body = '{"account_email":"a@b.example","messages":[{}],"labels":["x"],"padding":""}'
  const padded = body.replace('""}', `"${'x'.repeat(bytes - body.length)}"}`)
  return parseThread(encoder.encode(padded)).content
}

describe('the content cache', () => {
  it('holds the latest content of a key', () => {
    const [one, two] = [contentOf(100), contentOf(200)]
    contentCache.set('1/x', one)
    contentCache.set('2/x', two)
    expect([contentCache.get('1/x'), contentCache.get('2/x'), contentCache.get('1/y')]).toEqual([one, two, undefined])
    contentCache.set('1/x', two)
    expect(contentCache.get('1/x')).toBe(two)
  })

  it('holds at most 8 MB of bodies, the most recently used', () => {
    for (let id = 0; id < 100; id++) {
      contentCache.set(`3/${id}`, contentOf(200_000))
      if (id < 99) contentCache.set('3/0', contentOf(200_000))
    }
    const cached = Array.from({ length: 100 }, (_, id) => id).filter((id) => contentCache.get(`3/${id}`))
    expect(cached.length).toBe(39)
    expect(cached[0]).toBe(0)
    expect(cached.slice(1)).toEqual(Array.from({ length: cached.length - 1 }, (_, at) => 101 - cached.length + at))
  })

  it('holds at most 4,000 of the smallest bodies, whose entries weigh more than their bytes', () => {
    for (let id = 0; id < 6_000; id++) contentCache.set(`4/${id}`, contentOf(100))
    const cached = Array.from({ length: 6_000 }, (_, id) => id).filter((id) => contentCache.get(`4/${id}`))
    expect(cached.length).toBeGreaterThan(3_500)
    expect(cached.length).toBeLessThanOrEqual(4_000)
  })
})
