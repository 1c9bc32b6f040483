export type Bindings = Cloudflare.Env
declare global {
  namespace Cloudflare {
    interface Env {
      DB: D1Database
    }
  }
}
