import { app } from './app.ts'
import { AccountingDelivery, sweepAccounting } from './delivery/accounting/delivery.ts'
import { sweepWebhooks, WebhookDelivery } from './delivery/webhooks/delivery.ts'
import type { Env } from './env.ts'
import { collectAdminEntries } from './kernel/db/audit.ts'
import { forEachDatabase } from './kernel/db/placement.ts'
import { requireSchema } from './kernel/db/refusals.ts'
import { sweepRows } from './kernel/db/sweep.ts'
import { CompanyLimiter, RateLimiter } from './kernel/gate/limiter.ts'
import { CompanyBackup, sweepBackups } from './operation/copies/company-backup.ts'
import { FailureCounter } from './operation/health/failures.ts'
import { logGauges } from './operation/health/gauges.ts'
import { sweepMailContents } from './resources/mail/content.ts'

export { AccountingDelivery, CompanyBackup, CompanyLimiter, FailureCounter, RateLimiter, WebhookDelivery }

declare global {
  namespace Cloudflare {
    interface Env {
      RATE_LIMITER: DurableObjectNamespace<RateLimiter>
      COMPANY_LIMITER: DurableObjectNamespace<CompanyLimiter>
      ACCOUNTING_DELIVERY: DurableObjectNamespace<AccountingDelivery>
      WEBHOOK_DELIVERY: DurableObjectNamespace<WebhookDelivery>
      COMPANY_BACKUP: DurableObjectNamespace<CompanyBackup>
    }
  }
}

const outcomeOf = async (work: Promise<void>) => (await Promise.allSettled([work]))[0]

export default {
  fetch: app.fetch,
  async scheduled({ scheduledTime }, env) {
    await requireSchema(env.DB)
    // One database that fails does not keep the companies of the others waiting.
    const results = [
      await outcomeOf(logGauges(env, scheduledTime)),
      await outcomeOf(sweepWebhooks(env, scheduledTime)),
      await outcomeOf(sweepBackups(env, scheduledTime)),
      await outcomeOf(sweepAccounting(env, scheduledTime)),
      await outcomeOf(sweepRows(env, scheduledTime)),
      await outcomeOf(forEachDatabase(env, (_, name) => collectAdminEntries(env, name))),
      await outcomeOf(forEachDatabase(env, (db) => sweepMailContents(db, env.FILES, scheduledTime))),
    ]
    const failed = results.find((result) => result.status === 'rejected')
    if (failed) throw failed.reason
  },
} satisfies ExportedHandler<Env>
