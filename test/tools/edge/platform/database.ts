import { DurableObject } from 'cloudflare:workers'
import { copiesOf } from '../places.ts'

export interface Call {
  queries: { sql: string; params: unknown[] }[]
  /** As `raw()` returns rows, of one query; else as `batch()` does. */
  raw?: { columnNames?: boolean }
}

export interface Answer {
  results: unknown
  /** The last commit that the call has certainly seen: what a bookmark says. */
  sequence: number
  /** How long a copy waited until it was fresh enough. */
  waitedMs: number
}

/** The state of one database since the start. In the module, since an idle object loses its own. */
interface Copies {
  committed: number
  applied: number
  log: { sequence: number; call: Call; dueAt: number }[]
  /** How much longer than its lag the copy stayed behind, by {@link machineMs}. */
  delayMs: number
  writing: Promise<unknown>
  isApplying: boolean
  failure: string | null
}

const states = new Map<string, Copies>()

/** The lag of the replicas is drawn each second: around the median, and in one second of thirty by far longer. */
const MEDIAN_LAG_MS = 100
const LAG_SPREAD = 0.6
const LONG_LAG_MS = 3_000
const LONG_LAG_SHARE = 1 / 30
const STRETCH_MS = 1_000
const POLL_MS = 2

/** What a request took of late beside its hops: what follows a write comes so much later than it should. */
let machineMs = 0
const SMOOTHING = 0.1
/** The rest of the write, the caller, and the read. */
const REQUESTS_LATER = 3

/** A slow machine must not hide the lag: the copy stays behind for as much longer as requests take. */
export function noteMachine(milliseconds: number): void {
  machineMs += (Math.max(0, milliseconds) - machineMs) * SMOOTHING
}

let stretch = { endsAt: 0, lagMs: 0 }

function lagAt(now: number): number {
  if (now >= stretch.endsAt) stretch = { endsAt: now + STRETCH_MS, lagMs: drawLag() }
  return stretch.lagMs
}

/** A log-normal distribution, with the long lag for some draws. */
function drawLag(): number {
  if (Math.random() < LONG_LAG_SHARE) return LONG_LAG_MS
  const normal = Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random())
  return MEDIAN_LAG_MS * Math.exp(LAG_SPREAD * normal)
}

/** Whether a statement is one that a replica cannot run. */
export function isWrite(sql: string): boolean {
  const text = sql.replace(/^(\s|--.*\n)+/, '')
  if (/^with\b/i.test(text)) return /\b(insert\s+(or\s+\w+\s+)?into|update\s+\S+\s+set|delete\s+from)\b/i.test(text)
  return !/^(select|values|explain|pragma)\b/i.test(text)
}

/**
 * One database: a primary, and a copy of it that follows with a lag and stands for all replicas. Both are databases of D1
 * in this process; what was committed at the first is run again at the second, in the same order.
 */
export class DatabaseHost extends DurableObject<Record<string, unknown>> {
  async primary(binding: string, call: Call): Promise<Answer> {
    const state = this.#state(binding)
    if (!call.queries.some(({ sql }) => isWrite(sql))) {
      const sequence = state.committed
      return { results: await this.#run(copiesOf(binding)[0], call), sequence, waitedMs: 0 }
    }
    // One after the other, as D1 does: the order of the log is that of the commits.
    const done = state.writing.then(async () => {
      const results = await this.#run(copiesOf(binding)[0], call)
      const sequence = ++state.committed
      const now = Date.now()
      state.delayMs = machineMs * REQUESTS_LATER
      state.log.push({ sequence, call, dueAt: now + lagAt(now) + state.delayMs })
      return { results, sequence, waitedMs: 0 }
    })
    state.writing = done.catch(() => undefined)
    const answer = await done
    this.ctx.waitUntil(this.#apply(binding, state))
    return answer
  }

  /** Reads from the copy, as soon as it has at least the commit `minimum`. */
  async replica(binding: string, call: Call, minimum: number): Promise<Answer> {
    const state = this.#state(binding)
    const start = Date.now()
    while (state.applied < minimum) {
      if (state.failure) throw new Error(state.failure)
      await scheduler.wait(POLL_MS)
    }
    const sequence = state.applied
    const waitedMs = Math.max(0, Date.now() - start - state.delayMs)
    return { results: await this.#run(copiesOf(binding)[1], call), sequence, waitedMs }
  }

  /** Applies every commit when it is due, one run at a time. */
  async #apply(binding: string, state: Copies): Promise<void> {
    if (state.isApplying) return
    state.isApplying = true
    try {
      for (let [next] = state.log; next; [next] = state.log) {
        if (next.dueAt > Date.now()) await scheduler.wait(next.dueAt - Date.now())
        await this.#run(copiesOf(binding)[1], next.call)
        state.log.shift()
        state.applied = next.sequence
      }
    } catch (error) {
      state.failure = `A commit could not be applied to the replica: ${error}`
      console.error(state.failure)
    } finally {
      state.isApplying = false
    }
  }

  async #run(name: string, { queries, raw }: Call): Promise<unknown> {
    const database = this.env[name] as D1Database
    const statements = queries.map(({ sql, params }) => database.prepare(sql).bind(...params))
    const [first] = statements
    if (!raw || !first) return database.batch(statements)
    return raw.columnNames ? first.raw({ columnNames: true }) : first.raw()
  }

  #state(binding: string): Copies {
    let state = states.get(binding)
    if (!state) {
      const writing = Promise.resolve()
      state = { committed: 0, applied: 0, log: [], delayMs: 0, writing, isApplying: false, failure: null }
      states.set(binding, state)
    }
    return state
  }
}
