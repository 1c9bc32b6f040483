import type { Env } from '../../env.ts'
import * as contract from './contract.ts'
import { findHealth } from './health.ts'

const headers = { 'Cache-Control': 'no-store' }

/** These routes need no token, no company and no token limits. */
export const routes = [
  {
    contract: contract.readHealth,
    respond: async (env: Env) => {
      const health = await findHealth(env)
      return Response.json(health, { status: health.status === 'ok' ? 200 : 503, headers })
    },
  },
  {
    contract: contract.readLiveness,
    respond: async () => Response.json({ status: 'ok' }, { headers }),
  },
]
