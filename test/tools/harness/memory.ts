import type { Miniflare } from 'miniflare'

/** After so long without a response, the Worker is considered idle. */
const IDLE_MS = 200

/**
 * Calls the inspector of a Worker by the protocol of Chrome's developer tools.
 *
 * @param worker started with an `inspectorPort`
 */
export async function openInspector(worker: Miniflare) {
  const { host } = await worker.getInspectorURL()
  const targets = (await (await fetch(`http://${host}/json`)).json()) as {
    title: string
    webSocketDebuggerUrl: string
  }[]
  const target = targets.find(({ title }) => title.includes('core:user'))
  if (!target) throw new Error('The inspector does not know the Worker.')
  const socket = new WebSocket(target.webSocketDebuggerUrl)
  await new Promise((resolve) => socket.addEventListener('open', resolve, { once: true }))
  const url = new URL('/health/live', await worker.ready)
  const waiting = new Map<number, PromiseWithResolvers<unknown>>()
  let lastId = 0
  socket.addEventListener('message', ({ data }) => {
    const { id, result, error } = JSON.parse(String(data))
    if (error) waiting.get(id)?.reject(new Error(error.message))
    else waiting.get(id)?.resolve(result)
    waiting.delete(id)
  })
  return {
    /** Requests wake the Worker, whose inspector does not respond until one arrives. */
    async ask<T>(method: string, params: object = {}): Promise<T> {
      const answer = Promise.withResolvers<unknown>()
      waiting.set(++lastId, answer)
      socket.send(JSON.stringify({ id: lastId, method, params }))
      const timer = setInterval(() => void fetch(url).catch(() => undefined), IDLE_MS)
      return answer.promise.finally(() => clearInterval(timer)) as Promise<T>
    },
    [Symbol.dispose]: () => socket.close(),
  }
}

interface HeapUsage {
  usedSize: number
  embedderHeapUsedSize?: number
  backingStorageSize?: number
}

export type HeapWatch = Awaited<ReturnType<typeof watchHeap>>

/** Watches the memory that counts against a Worker's 128 MB: its JavaScript heap and its array buffers. */
export async function watchHeap(worker: Miniflare) {
  const inspector = await openInspector(worker)
  let peakBytes = 0
  let isOver = false
  let watching: Promise<void> | undefined
  const sample = async () => {
    while (!isOver) {
      const usage = await inspector.ask<HeapUsage>('Runtime.getHeapUsage')
      const { usedSize, embedderHeapUsedSize = 0, backingStorageSize = 0 } = usage
      peakBytes = Math.max(peakBytes, usedSize + embedderHeapUsedSize + backingStorageSize)
      await new Promise((resolve) => setTimeout(resolve, 1))
    }
  }
  return {
    /** Collects garbage and begins to sample, about once a millisecond. */
    async begin() {
      await inspector.ask('HeapProfiler.collectGarbage')
      peakBytes = 0
      isOver = false
      watching = sample()
    },
    /** @returns the most bytes that were seen */
    async end() {
      isOver = true
      await watching
      return peakBytes
    },
    [Symbol.dispose]: () => inspector[Symbol.dispose](),
  }
}
