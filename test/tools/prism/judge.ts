import { findOperation } from '../fuzz/description.ts'
import type { Exchange } from './exchange.ts'
import { BASE, EXCLUSIONS, TOLERANCES } from './exclusions.ts'
import type { ValidatingProxy } from './proxy.ts'

const NOT_DESCRIBED = 'Selected route not found'

/** Checks exchanges through the proxy and counts the results. */
export class Judge {
  private readonly proxy: ValidatingProxy
  readonly excluded = new Map<string, number>()
  readonly tolerated = new Map<string, number>()
  /** By operation, then by status. */
  readonly covered = new Map<string, Map<number, number>>()
  readonly failures: string[] = []
  exchanges = 0
  /** Requests that both the proxy and the API refused, and those that only the API's further rules did. */
  refusedByBoth = 0
  refusedBeyondSchema = 0

  constructor(proxy: ValidatingProxy) {
    this.proxy = proxy
  }

  /** @returns what is wrong with the exchange, or '' */
  async check(exchange: Exchange): Promise<string> {
    this.exchanges++
    const exclusion = EXCLUSIONS.find(({ applies }) => applies(exchange))
    if (exclusion) return this.leaveOut(exclusion.reason)
    const operation = findOperation(exchange.method, exchange.path.slice(BASE.length))?.id
    if (operation === undefined) return this.leaveOut('an unknown path, or another method on a known one: 404 and 405')

    const statuses = this.covered.get(operation) ?? new Map<number, number>()
    this.covered.set(operation, count(statuses, exchange.status))
    const violations = await this.proxy.judge(exchange)
    const ofRequest = violations.filter(({ where }) => where === 'request')
    const isRefused = exchange.status >= 400
    if (ofRequest.length > 0 && isRefused) this.refusedByBoth++
    if (ofRequest.length === 0 && [400, 413, 415].includes(exchange.status)) this.refusedBeyondSchema++

    // A request that is refused may be anything; one that is carried out is as described.
    const wrong = violations.filter(({ where, text }) => {
      if (where === 'response' || text.includes(NOT_DESCRIBED)) return true
      return !isRefused && !this.tolerate(exchange, text)
    })
    if (wrong.length === 0) return ''
    const found = wrong.map(({ where, text }) => `\n- ${where} ${text}`)
    const failure = `${exchange.method} ${exchange.path} returned ${exchange.status}; Prism finds${found.join('')}`
    this.failures.push(failure)
    return failure
  }

  private leaveOut(reason: string): '' {
    count(this.excluded, reason)
    return ''
  }

  private tolerate(exchange: Exchange, text: string): boolean {
    const tolerance = TOLERANCES.find(({ applies }) => applies(exchange, text))
    if (tolerance) count(this.tolerated, tolerance.reason)
    return tolerance !== undefined
  }
}

function count<Key>(counts: Map<Key, number>, key: Key): Map<Key, number> {
  return counts.set(key, (counts.get(key) ?? 0) + 1)
}
