import { sweep } from './accounting/delivery.ts'
import { app } from './app.ts'
import type { Env } from './env.ts'

export { AccountingDelivery } from './accounting/delivery.ts'
export { RateLimiter } from './rate-limit/limiter.ts'

export default {
  fetch: app.fetch,
  scheduled: ({ scheduledTime }, env) => sweep(env, scheduledTime),
} satisfies ExportedHandler<Env>
