import { env } from 'cloudflare:workers'
import { sweepAccounting } from '../../src/delivery/accounting/delivery.ts'
import * as accounting from '../../src/delivery/accounting/queries.ts'
import { sweepWebhooks } from '../../src/delivery/webhooks/delivery.ts'
import * as webhooks from '../../src/delivery/webhooks/queries.ts'
import type { Env } from '../../src/env.ts'
import { openDatabase } from '../../src/kernel/db/client.ts'
import { sweepRows } from '../../src/kernel/db/sweep.ts'
import { sweepMailContents } from '../../src/resources/mail/content.ts'
import { BUDGETS, defaultBudget } from '../kernel/db/budgets.ts'
import { mintToken, request, send, sql } from './app.ts'
import { contracts, exampleOf } from './endpoints.ts'
import { fillCompany } from './fill-company.ts'

const NOW = Date.UTC(2026, 10, 22, 12)

/** Makes the Worker run its statements: the requests of the budgets and examples, the sweep, and the deliveries. */
export async function runEverything(): Promise<void> {
  const object = { idFromName: () => ({}), get: () => ({ start: async () => undefined }) }
  const quiet = Object.assign({}, env, { ACCOUNTING_DELIVERY: object, WEBHOOK_DELIVERY: object }) as Env
  const company = await fillCompany()
  const measured = new Set(BUDGETS.map(({ operation }) => operation))
  const examples = contracts.filter(({ operationId }) => !measured.has(operationId))
  let token = ''
  for (const [index, each] of [...BUDGETS, ...examples.map((one) => defaultBudget(one, exampleOf(one)))].entries()) {
    // Below the limit of a token.
    if (index % 20 === 0) token = await mintToken(company.id)
    const method = contracts.find(({ operationId }) => operationId === each.operation)?.method ?? ''
    await send(request(token, method, each.path.split('cursor=')[0] ?? '', each.body), { env: quiet })
  }
  await deliverAccounting(company.id, quiet)
  await deliverWebhooks(company.id, quiet)
  await sweepWebhooks(quiet, NOW)
  await sweepAccounting(quiet, NOW)
  await sweepRows(quiet, NOW)
  await sweepMailContents(openDatabase(quiet.DB), quiet.FILES, NOW)
}

async function deliverAccounting(companyId: number, { DB }: Env): Promise<void> {
  const context = { companyId, db: openDatabase(DB) }
  await accounting.loadCompanyState(context)
  const { orderIds } = await accounting.loadQueue(context, NOW, 20)
  const { events } = await accounting.loadOrder(context, orderIds[0] ?? 0, NOW)
  const [event] = events
  if (!event) throw new Error('There is no event to deliver.')
  const sent = { state: 'sent', request_id: 'r-1', request_body: '{}' } as const
  const link = { external_id: '7', sync_token: '0', customer_id: '9' }
  await accounting.recordStep(context, event, { event: sent, link, customer: { clientId: 1, customerId: '9' } }, NOW)
  await accounting.recordStep(context, { ...event, ...sent }, { event: accounting.DONE }, NOW)
  await accounting.dropEvents(context, [event.id], NOW)
  await accounting.saveTokens(context, 'x')
  await accounting.switchRemoteAccount(context, 'https://x.example 1', undefined)
  await accounting.switchRemoteAccount(context, 'https://x.example 2', 'https://x.example 1')
}

async function deliverWebhooks(companyId: number, { DB }: Env): Promise<void> {
  const context = { companyId, db: openDatabase(DB) }
  await sql('UPDATE webhook_endpoints SET enabled = 1 WHERE company_id = ? AND id IN (1, 2)', companyId)
  const [id = ''] = await webhooks.listEnabledEndpoints(context)
  const round = await webhooks.loadRound(context, id, NOW)
  if (!round) throw new Error('There is no endpoint to deliver to.')
  const kept = round.feed.map((item) => ({ ...item, next_attempt_at: NOW, last_error: 'x' }))
  const ofRound = { done: round.due, kept, released: round.due, progress: { position: 5 } }
  const outcome = { ...ofRound, initial_failures: null, disabledReason: 'x' }
  await webhooks.saveRound(context, round.endpoint, outcome, NOW)
}
