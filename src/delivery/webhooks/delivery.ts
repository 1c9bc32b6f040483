import type { Env } from '../../env.ts'
import { CompanyObject, startObject } from '../../kernel/db/company-object.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { forEachDatabase } from '../../kernel/db/placement.ts'
import { listWebhookCompanies } from '../../kernel/db/sweep.ts'
import { addressPolicy } from '../../kernel/http/outbound.ts'
import { deliverChanges, HostPace } from './deliver-changes.ts'
import { listEnabledEndpoints } from './queries.ts'

/** A run starts no delivery after this time; the next run continues, with what other endpoints have got meanwhile. */
const RUN_MS = 5_000

/** Delivers one company's changes to its endpoints. A single object keeps the changes of an object in order. */
export class WebhookDelivery extends CompanyObject {
  protected override readonly name = 'webhooks'
  private readonly pace = new HostPace()

  /** Runs the endpoints concurrently. The next run begins when all have ended, and their open calls with them. */
  protected override async run(context: CompanyContext): Promise<number | null> {
    const endMs = Date.now() + RUN_MS
    const { CREDENTIALS_KEY: credentialsKey } = this.env
    const addresses = addressPolicy(this.env)
    const endpointIds = await listEnabledEndpoints(context)
    const runs = endpointIds.map((endpointId) =>
      deliverChanges({ ...context, endpointId, credentialsKey, addresses, pace: this.pace }, endMs),
    )
    await Promise.allSettled(runs)
    const times = (await Promise.all(runs)).filter((at) => at !== null)
    return times.length === 0 ? null : Math.min(...times)
  }
}

export function startWebhooks(env: Pick<Env, 'WEBHOOK_DELIVERY'>, companyId: number): Promise<void> {
  return startObject(env.WEBHOOK_DELIVERY, 'webhooks', companyId)
}

/** Starts companies with undelivered changes: those written by commands, or with a lost start. */
export async function sweepWebhooks(env: Pick<Env, 'DB' | 'WEBHOOK_DELIVERY'>, nowMs: number): Promise<void> {
  await forEachDatabase(env, async (db) => {
    const companyIds = await listWebhookCompanies(db, nowMs)
    await Promise.all(companyIds.map((companyId) => startWebhooks(env, companyId)))
  })
}
