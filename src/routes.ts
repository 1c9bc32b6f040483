import type { Hono } from 'hono'
import { mountClients } from './clients/routes.ts'
import { mountFiles } from './files/routes.ts'
import type { AppEnv } from './context.ts'
import { mountThreadContext } from './mail/context/routes.ts'
import { mountThreads } from './mail/threads/routes.ts'
import { mountOrders } from './orders/routes.ts'
import { mountProducts } from './products/routes.ts'

/** Every slice. */
export function mountAll(app: Hono<AppEnv>): void {
  mountClients(app)
  mountOrders(app)
  mountProducts(app)
  mountThreadContext(app)
  mountThreads(app)
  mountFiles(app)
}
