import { runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { vi } from 'vitest'
import type { Env } from '../../src/env.ts'
import type { CompanyObject } from '../../src/kernel/db/company-object.ts'
import { stopTime } from '../support/time.ts'

/**
 * Runs a company's object until it has nothing to do now; returns when it would run again. Stops the clock, so that no
 * retry is due on a slow machine before the test says so.
 *
 * @param replaced members of the object
 */
export async function runAlarm(
  object: DurableObjectStub<CompanyObject>,
  companyId: number,
  replaced: object = {},
): Promise<number | null> {
  for (;;) {
    const at = await runAlarmOnce(object, companyId, replaced)
    if (at === null || at > Date.now()) return at
  }
}

/** {@link runAlarm} of one alarm. */
export async function runAlarmOnce(
  object: DurableObjectStub<CompanyObject>,
  companyId: number,
  replaced: object,
): Promise<number | null> {
  if (!vi.isFakeTimers()) stopTime()
  const nextAt = await runInDurableObject(object, async (instance, state) => {
    state.storage.kv.put('company', companyId)
    let planned: number | null = null
    // Caught, since the runtime sets an alarm in its past to the real time.
    const schedule = async (at: number) => {
      planned = at
    }
    Object.assign(instance, { schedule }, replaced)
    await instance.alarm()
    Reflect.deleteProperty(instance, 'schedule')
    return planned
  })
  return nextAt
}

/** Bindings that start no delivery; `started` has the companies whose delivery would begin, after `waitMs` each. */
export function countStarts(name: 'ACCOUNTING_DELIVERY' | 'WEBHOOK_DELIVERY', waitMs = 0) {
  const started: number[] = []
  const start = async (companyId: number) => {
    started.push(companyId)
    await scheduler.wait(waitMs)
  }
  const bindings: Env = Object.assign({}, env, { [name]: { idFromName: String, get: () => ({ start }) } })
  return { started, bindings }
}
