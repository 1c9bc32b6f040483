import { vi } from 'vitest'
import { app } from '../../src/app.ts'
import type { Env } from '../../src/env.ts'
import { type ApiResponse, bodyOf } from '../support/app.ts'
import { expectConforms } from '../support/conformance.ts'
import { type Around, wrapBindings } from '../support/wrap-bindings.ts'

/** One call of a binding in a request: the second `DB.batch`, say. */
export interface Call {
  name: string
  ordinal: number
}

export interface Fault extends Call {
  mode: Mode
}

export interface Outcome {
  response: ApiResponse
  /** In the order in which they began. */
  calls: Call[]
  /** By the Worker's clock: until the response, and until the work after it had ended. */
  waitedMs: number
  endedMs: number
  /** The request ids that were counted among the platform's exceptions. */
  counted: (string | null)[]
}

const SLOW_MS = 700
/** Of a bucket: a call of the limiter that takes so long is given up. */
const SLOW_STORAGE_MS = 2_000

const PASSING = [
  'D1_ERROR: Network connection lost.',
  'D1_ERROR: Internal error in D1 DB storage caused object to be reset.',
  'D1_ERROR: D1 DB reset because its code was updated.',
]

/** The order of the faults decides which of the three passing failures it is, so that all are met. */
let passed = 0
const passing = () => new Error(PASSING[passed++ % PASSING.length])
const never = () => new Promise<never>(() => undefined)
const afterMs = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

interface Behaviour {
  /** The calls after it do the same. */
  lasts?: true
  act: (work: () => Promise<unknown>, name: string) => Promise<unknown>
}

const BEHAVIOURS = {
  fails: { lasts: true, act: () => Promise.reject(new Error('D1_ERROR: out of order')) },
  'fails once': { act: () => Promise.reject(passing()) },
  'loses its response': {
    act: async (work) => {
      await work()
      throw passing()
    },
  },
  'is overloaded': { act: () => Promise.reject(new Error('D1_ERROR: D1 DB is overloaded. Too many requests queued.')) },
  'is slow': {
    lasts: true,
    act: async (work, name) => {
      await afterMs(name.startsWith('FILES.') ? SLOW_STORAGE_MS : SLOW_MS)
      return work()
    },
  },
  hangs: { lasts: true, act: never },
  'never responds': { act: (work) => work().then(never) },
} satisfies Record<string, Behaviour>

export type Mode = keyof typeof BEHAVIOURS
export const MODES = Object.keys(BEHAVIOURS) as Mode[]

function lasts(mode: Mode): boolean {
  return 'lasts' in BEHAVIOURS[mode]
}

/** When every request begins, by the Worker's clock: the rows that two of them write can then be compared. */
const START = Date.now()

/**
 * Sends a request to the application, one call of which goes wrong. The Worker's clock is moved on only while nothing
 * real is under way, so that what it waits for is measured to the millisecond, and costs none.
 *
 * @throws Error when the response does not conform to the published description, or would never come
 */
export async function run(sent: Request, bindings: Env, fault?: Fault): Promise<Outcome> {
  const requestRun = new Run(fault)
  const fetchBefore = globalThis.fetch
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'], now: START })
  globalThis.fetch = async (...input) => {
    const whole = async () => {
      const response = await fetchBefore(...input)
      return new Response(await response.arrayBuffer(), response)
    }
    return requestRun.busy(whole)
  }
  try {
    return await requestRun.send(sent, bindings)
  } finally {
    globalThis.fetch = fetchBefore
    vi.useRealTimers()
  }
}

/** The platform waits this long for what goes on behind a response. */
export const BEHIND_MS = 30_000

/** So often the event loop turns before nothing is taken to be under way. */
const IDLE_TURNS = 4
const FOREVER_TURNS = 200

class Run {
  private readonly fault: Fault | undefined
  private readonly calls: Call[] = []
  private readonly counted: (string | null)[] = []
  private underWay = 0

  constructor(fault: Fault | undefined) {
    this.fault = fault
  }

  async send(sent: Request, bindings: Env): Promise<Outcome> {
    const later: Promise<unknown>[] = []
    const context = {
      waitUntil: (work: Promise<unknown>) => void later.push(work),
      passThroughOnException: () => undefined,
      props: {},
      exports: { FailureCounter: { fetch: this.countFailure } },
    }
    // Of an execution context the application uses `waitUntil` and `exports` alone.
    const fetched = app.fetch(sent, wrapBindings(bindings, this.around), context as unknown as ExecutionContext)
    const response = await this.drive(Promise.resolve(fetched))
    const waitedMs = Date.now() - START
    const received = await this.drive(expectConforms(sent, response).then(() => bodyOf(response)))
    const givenUp = new Promise((resolve) => setTimeout(resolve, BEHIND_MS))
    for (let i = 0; i < later.length; i++) await this.drive(Promise.race([Promise.allSettled([later[i]]), givenUp]))
    return { response: received, calls: this.calls, counted: this.counted, waitedMs, endedMs: Date.now() - START }
  }

  /** Work that is not measured by the Worker's clock. */
  async busy<T>(work: () => Promise<T>): Promise<T> {
    this.underWay += 1
    try {
      return await work()
    } finally {
      this.underWay -= 1
    }
  }

  /** Rejects, as a call of an entrypoint does that throws. */
  private readonly countFailure = async (...input: Parameters<typeof fetch>): Promise<never> => {
    this.counted.push(new Request(...input).headers.get('x-request-id'))
    throw new Error('InternalError')
  }

  private readonly around: Around = (name, work) => {
    const ordinal = this.calls.filter((call) => call.name === name).length + 1
    this.calls.push({ name, ordinal })
    const real = () => this.busy(work)
    const { fault } = this
    const isSpoilt =
      fault?.name === name && (ordinal === fault.ordinal || (ordinal > fault.ordinal && lasts(fault.mode)))
    return isSpoilt ? BEHAVIOURS[fault.mode].act(real, name) : real()
  }

  private drive<T>(work: Promise<T>): Promise<T> {
    return drive(work, () => this.underWay > 0)
  }
}

/**
 * The promise's outcome, the fake clock being moved from timer to timer.
 *
 * @param isBusy whether something real is under way, which must not be overtaken
 */
export async function drive<T>(work: Promise<T>, isBusy: () => boolean = () => false): Promise<T> {
  let isDone = false
  const done = work.finally(() => {
    isDone = true
  })
  done.catch(() => undefined)
  for (let idleTurns = 0; !isDone; ) {
    await scheduler.wait(1)
    if (isDone) break
    idleTurns = isBusy() ? 0 : idleTurns + 1
    if (idleTurns < IDLE_TURNS) continue
    if (vi.getTimerCount() > 0) {
      idleTurns = 0
      vi.advanceTimersToNextTimer()
    } else if (idleTurns > FOREVER_TURNS) throw new Error('It would wait without an end.')
  }
  return done
}
