import { AsyncLocalStorage } from 'node:async_hooks'

/** Milliseconds since a request arrived: of its hops and its databases, without the time of this machine. */
interface Clock {
  now: number
}

const clocks = new AsyncLocalStorage<Clock>()

/** Runs a request with a clock of its own, which `now` of the result reads. */
export async function withClock<T>(work: () => Promise<T>): Promise<{ result: T; ms: number }> {
  const clock = { now: 0 }
  const result = await clocks.run(clock, work)
  return { result, ms: clock.now }
}

/**
 * Waits for the way there, runs, and waits for the way back; failures take the way back, too. What begins when another
 * has ended is taken to be behind it, what begins before that to be beside it.
 *
 * @param spentMs what the work took at the other end, beside the time of this machine
 */
export async function travel<T>(
  milliseconds: number,
  work: () => Promise<T>,
  spentMs: (result: T) => number = () => 0,
): Promise<T> {
  const clock = clocks.getStore()
  const leftAt = clock?.now ?? 0
  let spent = 0
  await scheduler.wait(milliseconds / 2)
  try {
    const result = await work()
    spent = spentMs(result)
    return result
  } finally {
    await scheduler.wait(milliseconds / 2)
    if (clock) clock.now = Math.max(clock.now, leftAt + milliseconds + spent)
  }
}

/** Goes with a call to an object as its last argument, so that the object can say how long its own hops took. */
interface Ticket {
  edgeCall: number
}

let calls = 0
const spentOfCalls = new Map<number, number>()

const isTicket = (value: unknown): value is Ticket => typeof value === 'object' && value !== null && 'edgeCall' in value

/** @param call the call with the ticket */
export function travelToObject(milliseconds: number, call: (ticket: Ticket) => Promise<unknown>): Promise<unknown> {
  const ticket = { edgeCall: ++calls }
  const take = () => {
    const spent = spentOfCalls.get(ticket.edgeCall) ?? 0
    spentOfCalls.delete(ticket.edgeCall)
    return spent
  }
  return travel(milliseconds, () => call(ticket), take)
}

type Method = (...input: unknown[]) => unknown

/** Gives each call from outside a clock, by its ticket. Calls of an object to itself have none. */
export function timeMethods(prototype: object, names: readonly string[]): void {
  for (const name of names) {
    const method = Reflect.get(prototype, name) as Method
    const timed = async function (this: unknown, input: unknown[], { edgeCall }: Ticket) {
      const { result, ms } = await withClock(async () => Reflect.apply(method, this, input))
      spentOfCalls.set(edgeCall, ms)
      return result
    }
    Reflect.defineProperty(prototype, name, {
      value: function (this: unknown, ...input: unknown[]) {
        const ticket = input.at(-1)
        return isTicket(ticket) ? timed.call(this, input.slice(0, -1), ticket) : Reflect.apply(method, this, input)
      },
    })
  }
}
