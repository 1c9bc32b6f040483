import { describe, expect, it, vi } from 'vitest'
import type { RequestContext } from '../../../src/kernel/api/context.ts'
import { BUDGET_MS } from '../../../src/kernel/http/bounds.ts'
import { listOrderFiles } from '../../../src/resources/files/storage.ts'
import { drive } from '../../faults/run.ts'

// In a file of its own, which has no objects: a timer that one of them sets meanwhile would run outside of it.

describe('the deadline of a listing', () => {
  const waitFor = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))

  /** A listing whose pages take as long as given, one file each. */
  async function listSlowly(pageMs: number[], wait: (ms: number) => Promise<void> = waitFor) {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] })
    const startedAt = Date.now()
    const uploaded = new Date(0)
    const pages = pageMs.map((ms, n) => {
      const objects = [{ key: `orders/1/1/${n}`, size: 1, uploaded }]
      return { ms, page: { objects, truncated: true, cursor: String(n) } }
    })
    const bucket = {
      list: async () => {
        const { ms, page } = pages.shift() ?? { ms: 0, page: { objects: [], truncated: false } }
        await wait(ms)
        return page
      },
    }
    const db = { read: async () => [[{ id: 1 }], []] }
    const context = {
      requestId: 'r',
      companyId: 900_001,
      db,
      addresses: () => undefined,
      deploymentStorage: () => ({ bucket }),
    } as unknown as RequestContext
    const listing = await drive(listOrderFiles(context, 1, undefined))
    return { names: listing?.files.map(({ key }) => key), truncated: listing?.truncated, ms: Date.now() - startedAt }
  }

  it('returns the complete pages when it passes during a page', async () => {
    const outcome = await listSlowly([9_000, 9_000, 9_000, 9_000])
    expect(outcome).toEqual({ names: ['orders/1/1/0', 'orders/1/1/1'], truncated: true, ms: BUDGET_MS.listing })
  })

  it('returns the complete pages when it passes between two pages', async () => {
    const outcome = await listSlowly([9_000, 9_000, 9_000, 9_000], async (ms) => {
      vi.setSystemTime(Date.now() + ms)
    })
    expect(outcome.names).toHaveLength(3)
    expect(outcome.truncated).toBe(true)
  })
})
