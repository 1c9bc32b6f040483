import type { Hono } from 'hono'
import type { AppEnv } from '../../context.ts'
import { mount } from '../../http/endpoint.ts'
import { notFound } from '../../http/errors.ts'
import * as contract from './contract.ts'
import { presentThreadContext } from './present.ts'
import { findThreadContext } from './queries.ts'

export function mountThreadContext(app: Hono<AppEnv>): void {
  mount(app, contract.readThreadContext, async ({ params }, { db, companyId }) => {
    const row = await findThreadContext(db, companyId, params.legacyThreadId)
    if (!row) throw notFound('There is no such thread context.')
    return presentThreadContext(row)
  })
}
