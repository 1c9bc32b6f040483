import type { Hono } from 'hono'
import { mountClients } from './clients/routes.ts'
import { mountFiles } from './files/routes.ts'
import type { AppEnv } from './http/context.ts'
import { mountOrders } from './orders/routes.ts'
import { mountProducts } from './products/routes.ts'

/** Every slice. */
export function mountAll(app: Hono<AppEnv>): void {
  mountClients(app)
  mountOrders(app)
  mountProducts(app)
  mountFiles(app)
}
