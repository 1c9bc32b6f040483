import { sweep } from './accounting/delivery.ts'
import { app } from './app.ts'
import { sweepBackups } from './backup/company-backup.ts'
import { requireSchema } from './db/migrations.ts'
import type { Env } from './env.ts'
import { logGauges } from './health/gauges.ts'
import { sweepMailContents } from './mail/sweep.ts'
import { sweepWebhooks } from './webhooks/delivery.ts'

export { AccountingDelivery } from './accounting/delivery.ts'
export { CompanyBackup } from './backup/company-backup.ts'
export { FailureCounter } from './health/failures.ts'
export { RateLimiter } from './rate-limit/limiter.ts'
export { WebhookDelivery } from './webhooks/delivery.ts'

export default {
  fetch: app.fetch,
  async scheduled({ scheduledTime }, env) {
    await requireSchema(env.DB)
    await logGauges(env, scheduledTime)
    await sweepWebhooks(env, scheduledTime)
    await sweep(env, scheduledTime)
    await sweepBackups(env, scheduledTime)
    await sweepMailContents(env.DB, env.FILES, scheduledTime)
  },
} satisfies ExportedHandler<Env>
