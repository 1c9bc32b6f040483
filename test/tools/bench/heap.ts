import type { Miniflare } from 'miniflare'
import { Inspector } from './inspector.ts'

interface HeapUsage {
  usedSize: number
  embedderHeapUsedSize?: number
  backingStorageSize?: number
}

/** Watches the memory that counts against a Worker's 128 MB: its JavaScript heap and its array buffers. */
export class HeapWatch {
  readonly #inspector: Inspector
  #peakBytes = 0
  #isOver = false
  #watching: Promise<void> | undefined

  /** @param worker started with an `inspectorPort` */
  static async of(worker: Miniflare): Promise<HeapWatch> {
    return new HeapWatch(await Inspector.of(worker))
  }

  constructor(inspector: Inspector) {
    this.#inspector = inspector
  }

  /** Collects garbage and begins to sample, about once a millisecond. */
  async begin(): Promise<void> {
    await this.#inspector.ask('HeapProfiler.collectGarbage')
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

  [Symbol.dispose](): void {
    this.#inspector[Symbol.dispose]()
  }

  async #sample(): Promise<void> {
    while (!this.#isOver) {
      const usage = await this.#inspector.ask<HeapUsage>('Runtime.getHeapUsage')
      const { usedSize, embedderHeapUsedSize = 0, backingStorageSize = 0 } = usage
      this.#peakBytes = Math.max(this.#peakBytes, usedSize + embedderHeapUsedSize + backingStorageSize)
      await new Promise((resolve) => setTimeout(resolve, 1))
    }
  }
}
