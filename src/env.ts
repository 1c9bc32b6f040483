declare global {
  namespace Cloudflare {
    /**
     * The bindings of `wrangler.toml`. `app.ts` hands them on to the resources, which do not read `env`. Those of the
     * Durable Objects are in `index.ts`, which may import their classes.
     */
    interface Env {
      DB: D1Database
      CACHE: KVNamespace
      FILES: R2Bucket
      BACKUPS: R2Bucket
      ASSETS: Fetcher
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
      /** `development` sends uploads through `resources/files/relay.ts`. Set in `.dev.vars` only. */
      STORAGE_RELAY?: string
      /** Secret: 64 hexadecimal characters. Lets the operator's commands administer; without it they may not. */
      ADMIN_TOKEN?: string
      /** The issuer (`https://TEAM.cloudflareaccess.com`) and the audience tag of the Access application. */
      ACCESS_ISSUER?: string
      ACCESS_AUDIENCE?: string
      /** Emails of operators, separated by commas. */
      OPERATORS?: string
      /**
       * `development` signs everyone on this machine in as an owner of the sample company; requests to another host than
       * this machine are then refused. Set in `.dev.vars` only.
       */
      ADMIN_DEVELOPMENT?: string
      /** The JSON API of the DNS resolver that checks addresses of companies. Default: that of `kernel/http/outbound.ts`. */
      WEBHOOK_RESOLVER?: string
      /** `development` also calls webhooks and integrations on loopback addresses. Set in `.dev.vars` only. */
      WEBHOOK_LOOPBACK?: string
    }
  }
}

export type Env = Cloudflare.Env
