import { sweep } from './accounting/delivery.ts'
import { app } from './app.ts'
import type { Env } from './env.ts'
import { sweepWebhooks } from './webhooks/delivery.ts'

export { AccountingDelivery } from './accounting/delivery.ts'
export { RateLimiter } from './rate-limit/limiter.ts'
export { WebhookDelivery } from './webhooks/delivery.ts'

export default {
  fetch: app.fetch,
  async scheduled({ scheduledTime }, env) {
    await sweepWebhooks(env, scheduledTime)
    await sweep(env, scheduledTime)
  },
} satisfies ExportedHandler<Env>
