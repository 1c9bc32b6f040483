import type { Route } from '../../kernel/api/endpoint.ts'
import { routes as companies } from './companies/routes.ts'
import { routes as databases } from './databases/routes.ts'
import { routes as integrations } from './integrations/routes.ts'
import { routes as tokens } from './tokens/routes.ts'
import { routes as transfers } from './transfers/routes.ts'
import { routes as webhooks } from './webhooks/routes.ts'

export const adminRoutes: readonly Route[] = [
  ...companies,
  ...databases,
  ...tokens,
  ...integrations,
  ...webhooks,
  ...transfers,
]
