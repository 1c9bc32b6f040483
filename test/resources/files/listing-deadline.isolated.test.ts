import { expect, it, vi } from 'vitest'
import type { RequestContext } from '../../../src/kernel/api/context.ts'
import { BUDGET_MS } from '../../../src/kernel/http/isolate.ts'
import { listOrderFiles } from '../../../src/resources/files/storage.ts'
import { drive } from '../../faults/run.ts'

// In a file of its own, which has no objects: a timer that one of them sets meanwhile would run outside of it.

/** A listing of four pages, each after nine seconds, one file each. */
async function listSlowly(wait: (ms: number) => Promise<void>) {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] })
  const startedAt = Date.now()
  let pages = 0
  const bucket = {
    list: async () => {
      if (pages === 4) return { objects: [], truncated: false }
      const key = `orders/1/1/${pages++}`
      await wait(9_000)
      return { objects: [{ key, size: 1, uploaded: new Date(0) }], truncated: true, cursor: key }
    },
  }
  const context = {
    requestId: 'r',
    companyId: 900_001,
    db: { read: async () => [[{ id: 1 }], []] },
    addresses: () => undefined,
    deploymentStorage: () => ({ bucket }),
  } as unknown as RequestContext
  const listing = await drive(listOrderFiles(context, 1, undefined))
  return { names: listing?.files.map(({ key }) => key), truncated: listing?.truncated, ms: Date.now() - startedAt }
}

const FILES = ['orders/1/1/0', 'orders/1/1/1', 'orders/1/1/2']

it.each<[string, (ms: number) => Promise<void>, string[], number]>([
  ['during a page', (ms) => new Promise((resolve) => setTimeout(resolve, ms)), FILES.slice(0, 2), BUDGET_MS.listing],
  ['between two pages', async (ms) => void vi.setSystemTime(Date.now() + ms), FILES, 27_000],
])('the deadline of a listing leaves the complete pages when it passes %s', async (_, wait, names, ms) => {
  expect(await listSlowly(wait)).toEqual({ names, truncated: true, ms })
})
