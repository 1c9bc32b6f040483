import { app } from './app.ts'
import type { Env } from './env.ts'

export { RateLimiter } from './rate-limit/limiter.ts'

export default { fetch: app.fetch } satisfies ExportedHandler<Env>
