import type { Demand, HourOfUsage, Lease } from './rate-limit/window.ts'

/** Counts one token's requests: see `rate-limit/limiter.ts`. */
interface RateLimiter extends Rpc.DurableObjectBranded {
  acquire(demand: Demand): Lease
  usage(): HourOfUsage[]
  ping(): void
}

/** Delivers one company's accounting events: see `accounting/delivery.ts`. */
interface AccountingDelivery extends Rpc.DurableObjectBranded {
  start(companyId: number): Promise<void>
  check(companyId: number): Promise<{ ok: boolean; message: string }>
  ping(): void
}

/** Delivers one company's changes to its webhook endpoints: see `webhooks/delivery.ts`. */
interface WebhookDelivery extends Rpc.DurableObjectBranded {
  start(companyId: number): Promise<void>
  ping(): void
}

declare global {
  namespace Cloudflare {
    /** The bindings of `wrangler.toml`. `context.ts` hands them on to the slices, which do not read `env`. */
    interface Env {
      DB: D1Database
      CACHE: KVNamespace
      FILES: R2Bucket
      ASSETS: Fetcher
      RATE_LIMITER: DurableObjectNamespace<RateLimiter>
      ACCOUNTING_DELIVERY: DurableObjectNamespace<AccountingDelivery>
      WEBHOOK_DELIVERY: DurableObjectNamespace<WebhookDelivery>
      AUTH_FAILURES: RateLimit
      ADMIN_REQUESTS: RateLimit
      /** Secret: 32 bytes, base64. Encrypts the companies' integration credentials and webhook secrets. */
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
      /** Secret: 64 hexadecimal characters. Lets the operator's commands administer; without it they may not. */
      ADMIN_TOKEN?: string
      /** The issuer (`https://TEAM.cloudflareaccess.com`) and the audience tag of the Access application. */
      ACCESS_ISSUER?: string
      ACCESS_AUDIENCE?: string
      /** Emails of operators, separated by commas. */
      OPERATORS?: string
      /** `development` signs everyone on this machine in as an owner of the sample company. Set in `.dev.vars` only. */
      ADMIN_DEVELOPMENT?: string
      /** The JSON API of the DNS resolver that checks addresses of webhooks. Default: that of `webhooks/address.ts`. */
      WEBHOOK_RESOLVER?: string
      /** `development` delivers webhooks to loopback addresses too. Set in `.dev.vars` only. */
      WEBHOOK_LOOPBACK?: string
    }
  }
}

export type Env = Cloudflare.Env
