import { DurableObject } from 'cloudflare:workers'
import type { Env } from '../../env.ts'
import { ApiError } from '../http/errors.ts'
import { BUDGET_MS, log, nameOf, withDeadline } from '../http/isolate.ts'
import { openCompany, type PlacedContext } from './placement.ts'
import { requireSchema } from './refusals.ts'

/** A failed run is repeated after the `Retry-After` of its error (2 s in a move), else 30 s; doubled for each in a row. */
const FIRST_RETRY_MS = 30_000
const MAX_RETRY_MS = 3_600_000

type Retry = { failures: number; at: number }

/**
 * Runs one kind of background work of one company, whose id is the object's name. It stores its alarm, the company's id
 * and the retry. All else is in the company's database, except what that failed to store.
 */
export abstract class CompanyObject extends DurableObject<Env> {
  /** Prefixes the events of its failures in the log. */
  protected abstract readonly name: string

  /** Does the work that is due. @returns when to run again; null waits for the next {@link start} */
  protected abstract run(context: PlacedContext): Promise<number | null>

  /** Schedules a run as soon as possible: after the present one and, unless a person starts it, the backoff of a failed one. */
  async start(companyId: number, isByHand = false): Promise<void> {
    this.ctx.storage.kv.put('company', companyId)
    if (isByHand) this.ctx.storage.kv.delete('retry')
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
      const seconds = error instanceof ApiError ? Number(error.headers['Retry-After']) : Number.NaN
      const firstMs = seconds * 1_000 || FIRST_RETRY_MS
      at = Date.now() + Math.min(firstMs * 2 ** failures, MAX_RETRY_MS)
      kv.put<Retry>('retry', { failures: failures + 1, at })
    }
    if (at !== null) await this.schedule(at)
  }

  private async schedule(at: number): Promise<void> {
    const planned = await this.ctx.storage.getAlarm()
    if (planned === null || at < planned) await this.ctx.storage.setAlarm(at)
  }
}

/** A lost call is logged, and the sweep repeats it. */
export async function startObject(
  objects: DurableObjectNamespace<CompanyObject>,
  name: string,
  companyId: number,
  isByHand = false,
) {
  try {
    const object = objects.get(objects.idFromName(String(companyId)))
    await withDeadline(object.start(companyId, isByHand), BUDGET_MS.afterwards)
  } catch (error) {
    log(`${name}_start_failed`, { company_id: companyId, error: nameOf(error) })
  }
}
