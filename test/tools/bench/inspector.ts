import type { Miniflare } from 'miniflare'

/** After so long without a response, the Worker is considered idle. */
const IDLE_MS = 200

/** Calls the inspector of a Worker by the protocol of Chrome's developer tools. */
export class Inspector {
  readonly #socket: WebSocket
  readonly #url: URL
  readonly #waiting = new Map<number, { resolve: (result: never) => void; reject: (error: Error) => void }>()
  #lastId = 0

  /** @param worker started with an `inspectorPort` */
  static async of(worker: Miniflare): Promise<Inspector> {
    const { host } = await worker.getInspectorURL()
    const response = await fetch(`http://${host}/json`)
    const targets = (await response.json()) as { title: string; webSocketDebuggerUrl: string }[]
    const target = targets.find(({ title }) => title.includes('core:user'))
    if (!target) throw new Error('The inspector does not know the Worker.')
    const socket = new WebSocket(target.webSocketDebuggerUrl)
    await new Promise((resolve) => socket.addEventListener('open', resolve, { once: true }))
    return new Inspector(socket, await worker.ready)
  }

  constructor(socket: WebSocket, url: URL) {
    this.#socket = socket
    this.#url = url
    socket.addEventListener('message', ({ data }) => {
      const { id, result, error } = JSON.parse(String(data))
      const waiting = this.#waiting.get(id)
      this.#waiting.delete(id)
      if (error) waiting?.reject(new Error(error.message))
      else waiting?.resolve(result as never)
    })
  }

  /** Requests wake the Worker, whose inspector does not respond until one arrives. */
  async ask<T>(method: string, params: object = {}): Promise<T> {
    const id = ++this.#lastId
    this.#socket.send(JSON.stringify({ id, method, params }))
    const wake = () => void fetch(new URL('/health/live', this.#url)).catch(() => undefined)
    const timer = setInterval(wake, IDLE_MS)
    try {
      return await new Promise<T>((resolve, reject) => this.#waiting.set(id, { resolve, reject }))
    } finally {
      clearInterval(timer)
    }
  }

  [Symbol.dispose](): void {
    this.#socket.close()
  }
}
