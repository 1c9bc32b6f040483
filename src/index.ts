import { sweep } from './accounting/delivery.ts'
import { app } from './app.ts'
import { sweepBackups } from './backup/company-backup.ts'
import { collectAdminEntries } from './db/audit.ts'
import { requireSchema } from './db/migrations.ts'
import { forEachDatabase } from './db/placement.ts'
import type { Env } from './env.ts'
import { logGauges } from './health/gauges.ts'
import { sweepMailContents } from './mail/sweep.ts'
import { sweepWebhooks } from './webhooks/delivery.ts'

export { AccountingDelivery } from './accounting/delivery.ts'
export { CompanyBackup } from './backup/company-backup.ts'
export { FailureCounter } from './health/failures.ts'
export { CompanyLimiter } from './rate-limit/company-limiter.ts'
export { RateLimiter } from './rate-limit/limiter.ts'
export { WebhookDelivery } from './webhooks/delivery.ts'

const settle = async (work: Promise<void>) => (await Promise.allSettled([work]))[0]

export default {
  fetch: app.fetch,
  async scheduled({ scheduledTime }, env) {
    await requireSchema(env.DB)
    // One database that fails does not keep the companies of the others waiting.
    const results = [
      await settle(logGauges(env, scheduledTime)),
      await settle(sweepWebhooks(env, scheduledTime)),
      await settle(sweep(env, scheduledTime)),
      await settle(sweepBackups(env, scheduledTime)),
      await settle(forEachDatabase(env, (_, name) => collectAdminEntries(env, name))),
      await settle(forEachDatabase(env, (binding) => sweepMailContents(binding, env.FILES, scheduledTime))),
    ]
    const failed = results.find(({ status }) => status === 'rejected')
    if (failed?.status === 'rejected') throw failed.reason
  },
} satisfies ExportedHandler<Env>
