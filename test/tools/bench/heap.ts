import type { Miniflare } from 'miniflare'

interface HeapUsage {
  usedSize: number
  embedderHeapUsedSize?: number
  backingStorageSize?: number
}

/** After so long without a response, the Worker is considered idle. */
const IDLE_MS = 200

/** Watches the memory that counts against a Worker's 128 MB: its JavaScript heap and its array buffers. */
export class HeapWatch {
  readonly #socket: WebSocket
  readonly #url: URL
  readonly #waiting = new Map<number, (result: HeapUsage) => void>()
  #lastId = 0
  #peakBytes = 0
  #isOver = false
  #watching: Promise<void> | undefined

  /** @param worker started with an `inspectorPort` */
  static async of(worker: Miniflare): Promise<HeapWatch> {
    const { host } = await worker.getInspectorURL()
    const response = await fetch(`http://${host}/json`)
    const targets = (await response.json()) as { title: string; webSocketDebuggerUrl: string }[]
    const target = targets.find(({ title }) => title.includes('core:user'))
    if (!target) throw new Error('The inspector does not know the Worker.')
    const socket = new WebSocket(target.webSocketDebuggerUrl)
    await new Promise((resolve) => socket.addEventListener('open', resolve, { once: true }))
    return new HeapWatch(socket, await worker.ready)
  }

  constructor(socket: WebSocket, url: URL) {
    this.#socket = socket
    this.#url = url
    socket.addEventListener('message', ({ data }) => {
      const { id, result } = JSON.parse(String(data))
      this.#waiting.get(id)?.(result)
      this.#waiting.delete(id)
    })
  }

  /** Collects garbage and begins to sample, about once a millisecond. */
  async begin(): Promise<void> {
    await this.#ask('HeapProfiler.collectGarbage')
    this.#peakBytes = 0
    this.#isOver = false
    this.#watching = this.#sample()
  }

  /** @returns the most bytes that were seen */
  async end(): Promise<number> {
    this.#isOver = true
    await this.#watching
    return this.#peakBytes
  }

  close(): void {
    this.#socket.close()
  }

  async #sample(): Promise<void> {
    while (!this.#isOver) {
      const { usedSize, embedderHeapUsedSize = 0, backingStorageSize = 0 } = await this.#ask('Runtime.getHeapUsage')
      this.#peakBytes = Math.max(this.#peakBytes, usedSize + embedderHeapUsedSize + backingStorageSize)
      await new Promise((resolve) => setTimeout(resolve, 1))
    }
  }

  async #ask(method: string): Promise<HeapUsage> {
    const id = ++this.#lastId
    this.#socket.send(JSON.stringify({ id, method }))
    // The inspector of an idle Worker does not respond until any request arrives.
    const timer = setInterval(() => void fetch(new URL('/none', this.#url)).catch(() => undefined), IDLE_MS)
    try {
      return await new Promise((resolve) => this.#waiting.set(id, resolve))
    } finally {
      clearInterval(timer)
    }
  }
}
