import { abortAllDurableObjects, evictDurableObject, runInDurableObject } from 'cloudflare:test'
import { vi } from 'vitest'
import type { Env } from '../../../src/env.ts'
import type { AdmitRequest, Admitted, RateLimiter } from '../../../src/kernel/gate/limiter.ts'
import { hashToken } from '../../../src/kernel/gate/tokens.ts'
import { mintCompany } from '../../support/app.ts'
import { tokenObject } from './support.ts'

/** A token's object, which no other test uses. */
export class Gate {
  readonly token: string
  readonly hash: string
  stub: DurableObjectStub<RateLimiter>

  constructor(token: string) {
    this.token = token
    this.hash = hashToken(token)
    this.stub = tokenObject(token)
  }

  static async open(): Promise<Gate> {
    return new Gate((await mintCompany()).token)
  }

  async admit(request: Partial<AdmitRequest> = {}): Promise<Admitted> {
    const result = await this.stub.admit(this.hash, { databaseMs: 0, isWrite: false, ...request })
    if (result.kind !== 'admitted') throw new Error(`The token is ${result.kind}.`)
    return result as Admitted
  }

  write = () => this.admit({ isWrite: true })

  /** Gives the object other bindings. */
  async bind(bindings: Env): Promise<void> {
    await runInDurableObject(this.stub, (object) => void Object.assign(object, { env: bindings }))
  }

  async constraint(): Promise<string | null> {
    return (await this.admit()).constraint
  }

  /** Reports the bookmark of an admitted request. */
  async report(bookmark: string, { receipt }: Partial<Pick<Admitted, 'receipt'>> = {}) {
    await this.stub.report({ databaseMs: 0, seen: { database: 'DB', bookmark, ...receipt } })
  }

  /** Requests allowed of so many, one after the other, inside of the object. */
  async allow(requests: number): Promise<number> {
    return runInDurableObject(this.stub, async (object) => {
      let allowed = 0
      for (let i = 0; i < requests; i++) {
        const result = await object.admit(this.hash, { databaseMs: 0, isWrite: false })
        if (result.kind === 'admitted' && result.decision.allowed) allowed++
      }
      return allowed
    })
  }

  /** Ends the object at once, as a crash or a deploy does; the old stub is then of no use. */
  async crash(): Promise<void> {
    await abortAllDurableObjects()
    this.stub = tokenObject(this.token)
  }

  /** Ends it as the platform does with an object that was idle for ten seconds. */
  async evictIdle(): Promise<void> {
    await runInDurableObject(this.stub, async (_, state) => vi.waitUntil(() => state.storage.kv.get('window'), 10_000))
    await scheduler.wait(5_500)
    await evictDurableObject(this.stub)
  }
}
