import type { Route } from '../http/endpoint.ts'
import { routes as audit } from './audit/routes.ts'
import { routes as members } from './members/routes.ts'
import { routes as session } from './session/routes.ts'

export const adminRoutes: readonly Route[] = [...session, ...members, ...audit]
