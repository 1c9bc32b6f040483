// For benches in which one company stands for many: its database time, which all of its tokens share, never runs out.
import { DurableObject } from 'cloudflare:workers'

export * from './index.js'
export { default } from './index.js'

export class CompanyLimiter extends DurableObject {
  report() {
    return { startedAt: Date.now(), count: 0, databaseMs: 0 }
  }

  ping() {}
}
