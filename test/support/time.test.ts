import { expect, it, vi } from 'vitest'
import { moveTime, stopTime } from './time.ts'

it.each([
  ['stopped', stopTime],
  ['moved', () => moveTime(1_000)],
])('a %s clock stands while a test polls', async (_, begin) => {
  begin()
  const now = Date.now()
  let looks = 0
  await vi.waitUntil(() => ++looks === 5, { interval: 20 })
  await expect.poll(() => ++looks, { interval: 20 }).toBe(10)
  expect(Date.now()).toBe(now)
})
