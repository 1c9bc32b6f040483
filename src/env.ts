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
      AUTH_FAILURES: RateLimit
      /** Secret: 32 bytes, base64. Encrypts the companies' integration credentials. */
      CREDENTIALS_KEY: string
    }
  }
}

export type Env = Cloudflare.Env
