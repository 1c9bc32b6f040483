import { median } from '../bench/load.ts'
import { childrenNamed, forgetPeakMemory, peakMemoryBytes } from '../bench/memory.ts'

const EVERY_MS = 1_000
const MIB = 1_048_576

/**
 * How much more than before the runtime may hold in the second part of a phase. It takes some more for long by itself;
 * retained bodies would be many times that, and what the Worker retains shows in its heap.
 */
const GROWTH = 0.1

/** The runtime's peak memory of each second, in MiB. */
export class MemoryWatch {
  readonly #pids = childrenNamed('workerd')
  readonly #timer: NodeJS.Timeout
  #series: number[] = []

  constructor() {
    this.#look()
    this.#timer = setInterval(() => this.#series.push(this.#look()), EVERY_MS)
  }

  /** The seconds since the last time that this was asked. */
  take(): number[] {
    const series = [...this.#series, this.#look()]
    this.#series = []
    return series
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
  }

  #look(): number {
    const bytes = this.#pids.map((pid) => {
      const peak = peakMemoryBytes(pid)
      forgetPeakMemory(pid)
      return peak
    })
    return bytes.reduce((sum, each) => sum + each, 0) / MIB
  }
}

/**
 * Whether memory stays where it is under one load: the first quarter, in which it goes to its new height, is left out;
 * of the rest the median of the second half may be a tenth above that of the first.
 */
export function comparePlateaus(series: readonly number[]) {
  const rest = series.slice(Math.floor(series.length / 4))
  const middle = Math.floor(rest.length / 2)
  const first = median(rest.slice(0, middle))
  const second = median(rest.slice(middle))
  return { first, second, isFlat: second <= first * (1 + GROWTH) }
}
