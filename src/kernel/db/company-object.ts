import { DurableObject } from 'cloudflare:workers'
import type { Env } from '../../env.ts'
import { BUDGET_MS, withDeadline } from '../http/deadline.ts'
import { log, nameOf } from '../http/log.ts'
import { requireSchema } from './migrations.ts'
import { openCompany, type PlacedContext } from './placement.ts'

/** A failed run is repeated after 30 s, doubled for each failure in a row. */
const FIRST_RETRY_MS = 30_000
const MAX_RETRY_MS = 3_600_000

/** How many runs in a row failed, and when the next may start. */
type Retry = { failures: number; at: number }

/**
 * Background work of one company, whose id is the object's name: the only object to do it. It stores only its alarm, the
 * company's id and how its last runs failed: all else is in the company's database.
 */
export abstract class CompanyObject extends DurableObject<Env> {
  /** What failures are logged as. */
  protected abstract readonly name: string

  /** Does what is due. @returns when to run again; null for not before {@link start} */
  protected abstract run(context: PlacedContext): Promise<number | null>

  /** Schedules a run as soon as possible: after the present one, and not before a failed run is to be repeated. */
  async start(companyId: number): Promise<void> {
    this.ctx.storage.kv.put('company', companyId)
    await this.schedule(Math.max(Date.now(), this.ctx.storage.kv.get<Retry>('retry')?.at ?? 0))
  }

  /** For the health check. */
  ping(): void {}

  /** Never throws: a failed run is repeated with a backoff. */
  override async alarm(): Promise<void> {
    const { kv } = this.ctx.storage
    const companyId = kv.get<number>('company')
    if (companyId === undefined) return
    const failures = kv.get<Retry>('retry')?.failures ?? 0
    let at: number | null
    try {
      await requireSchema(this.env.DB)
      at = await this.run(await openCompany(this.env, companyId))
      if (failures > 0) kv.delete('retry')
    } catch (error) {
      log(`${this.name}_failed`, { company_id: companyId, error: nameOf(error) })
      at = Date.now() + Math.min(FIRST_RETRY_MS * 2 ** failures, MAX_RETRY_MS)
      kv.put<Retry>('retry', { failures: failures + 1, at })
    }
    if (at !== null) await this.schedule(at)
  }

  private async schedule(at: number): Promise<void> {
    const planned = await this.ctx.storage.getAlarm()
    if (planned === null || at < planned) await this.ctx.storage.setAlarm(at)
  }
}

interface Startable extends Rpc.DurableObjectBranded {
  start(companyId: number): Promise<void>
}

/**
 * Starts a company's object. A call that is lost is logged, and repeated by the sweep.
 *
 * @param name as which it is logged
 * @param region of the company's database, near which the object is made when it is called for the first time
 */
export async function startObject(
  objects: DurableObjectNamespace<Startable>,
  companyId: number,
  name: string,
  region?: string,
) {
  // D1 names its regions as hints are named, in capitals.
  const locationHint = region?.toLowerCase() as DurableObjectLocationHint | undefined
  try {
    const object = objects.get(objects.idFromName(String(companyId)), locationHint && { locationHint })
    await withDeadline(object.start(companyId), BUDGET_MS.afterwards)
  } catch (error) {
    log(`${name}_start_failed`, { company_id: companyId, error: nameOf(error) })
  }
}
