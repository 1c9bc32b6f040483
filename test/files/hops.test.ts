import { env } from 'cloudflare:workers'
import { beforeAll, describe, expect, it, vi } from 'vitest'
import { migrate, request, send } from '../support/app.ts'
import { type CompanyWithOrder, giveStorage, mintCompanyWithOrder } from './support.ts'

let company: CompanyWithOrder

beforeAll(async () => {
  await migrate()
  company = await mintCompanyWithOrder()
})

interface Hop {
  name: string
  /** How many waits had ended when it began. */
  depth: number
}

/** The bindings, and what was asked of the database and of storages, each held back so that a serial wait shows. */
function watched() {
  const hops: Hop[] = []
  let ended = 0
  const watch = async <T>(name: string, work: () => Promise<T>): Promise<T> => {
    hops.push({ name, depth: ended })
    try {
      const result = await work()
      await scheduler.wait(20)
      return result
    } finally {
      ended += 1
    }
  }
  const bindings = {
    ...env,
    DB: replaceMethod(env.DB, 'withSession', (start) => {
      const session = env.DB.withSession(start)
      return replaceMethod(session, 'batch', (statements) => watch('database', () => session.batch(statements)))
    }),
    FILES: replaceMethod(env.FILES, 'list', (options) => watch('list', () => env.FILES.list(options))),
  }
  const realFetch = globalThis.fetch
  const spy = vi.spyOn(globalThis, 'fetch').mockImplementation((...args) => watch('fetch', () => realFetch(...args)))
  return { bindings, hops, restore: () => spy.mockRestore() }
}

function replaceMethod<T extends object, K extends keyof T>(target: T, name: K, replacement: T[K]): T {
  return new Proxy(target, {
    get: (_, property) => {
      if (property === name) return replacement
      const value: unknown = Reflect.get(target, property, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

async function hopsOf(of: CompanyWithOrder, method: string, path: string, body?: unknown): Promise<Hop[]> {
  const { bindings, hops, restore } = watched()
  try {
    expect(
      (await send(request(of.token, method, `/orders/${of.orderId}/files${path}`, body), { env: bindings })).status,
    ).toBe(200)
    return hops
  } finally {
    restore()
  }
}

const upload = { fileName: 'x', size: 1, legacyThreadId: 't' }

describe('network waits', () => {
  it('presign has one', async () => {
    expect(await hopsOf(company, 'POST', '/presign', upload)).toEqual([{ name: 'database', depth: 0 }])
  })

  it('presign for a company’s own storage has one', async () => {
    const own = await mintCompanyWithOrder()
    await giveStorage(own)
    expect(await hopsOf(own, 'POST', '/presign', upload)).toEqual([{ name: 'database', depth: 0 }])
  })

  it('a listing asks the storage beside the check of the order', async () => {
    const hops = await hopsOf(company, 'GET', '')
    expect(hops).toHaveLength(2)
    expect(hops).toContainEqual({ name: 'list', depth: 0 })
    expect(hops).toContainEqual({ name: 'database', depth: 0 })
  })

  it('a listing of a company’s own storage too, from the second on', async () => {
    const own = await mintCompanyWithOrder()
    await giveStorage(own)
    const first = await hopsOf(own, 'GET', '')
    expect(first.at(-1)?.name).toBe('fetch')
    expect(first.at(-1)?.depth).toBeGreaterThan(0)
    const second = await hopsOf(own, 'GET', '')
    expect(second.map(({ name }) => name).sort()).toEqual(['database', 'fetch'])
    expect(second.every(({ depth }) => depth === 0)).toBe(true)
  })
})
