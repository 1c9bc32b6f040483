import { runInDurableObject } from 'cloudflare:test'
import { vi } from 'vitest'
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
