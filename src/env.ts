import type { AccountingDelivery } from './accounting/delivery.ts'
import type { RateLimiter } from './rate-limit/limiter.ts'

declare global {
  namespace Cloudflare {
    /** What `wrangler.toml` binds. Only `app.ts` and `index.ts` hand these on; nothing else reads `env`. */
    interface Env {
      DB: D1Database
      CACHE: KVNamespace
      FILES: R2Bucket
      ASSETS: Fetcher
      RATE_LIMITER: DurableObjectNamespace<RateLimiter>
      ACCOUNTING_DELIVERY: DurableObjectNamespace<AccountingDelivery>
      AUTH_FAILURES: RateLimit
      /** Secret: 32 bytes, base64. Encrypts the companies' integration credentials. */
      CREDENTIALS_KEY: string
      /** The deployment's own storage: account-level S3 keys to the bucket of `FILES`. Without them it has none. */
      STORAGE_ENDPOINT?: string
      STORAGE_BUCKET?: string
      /** The region that uploads are signed for. Default `auto`, the only one that R2 has. */
      STORAGE_REGION?: string
      STORAGE_ACCESS_KEY_ID?: string
      STORAGE_SECRET_ACCESS_KEY?: string
      /** `development` sends uploads through `files/relay.ts`. Set in `.dev.vars` only. */
      STORAGE_RELAY?: string
    }
  }
}

export type Env = Cloudflare.Env
