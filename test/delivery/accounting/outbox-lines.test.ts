import { describe, expect, it } from 'vitest'
import { makeFault } from '../../../src/simulators/accounting-data.ts'
import { sql } from '../../support/app.ts'
import { logLines } from '../../support/log.ts'
import { Shop } from './shop.ts'
import { INVOICE_POST } from './support.ts'

function linesOf(shop: Shop) {
  return logLines.filter(({ event, company_id }) => event === 'outbox' && company_id === shop.company.id)
}

describe('the log has one line when', () => {
  it.each([
    ['an event is parked', 'parked', 'closed_period', { status: 400, body: makeFault('6190', 'hunter2') }],
    ['an event is dead', 'dead', 'data', { status: 400, body: makeFault('2020', 'hunter2') }],
    ['the company is paused', 'company_paused', 'throttle', { status: 429, body: makeFault('3001', 'hunter2') }],
    ['the consent is lost', 'consent_lost', 'grant_lost', { status: 403, body: makeFault('3100', 'hunter2') }],
  ])('%s', async (_, state, cause, fault) => {
    const { shop, id: order_id } = await Shop.openWithOrder()
    await shop.world.spoil({ match: INVOICE_POST, times: -1, ...fault })
    await shop.deliver()
    const [event] = await shop.open()
    expect(linesOf(shop)).toEqual([
      { event: 'outbox', state, cause, company_id: shop.company.id, order_id, event_id: event?.id, attempts: 1 },
    ])
    expect(JSON.stringify(logLines)).not.toContain('hunter2')
    // Nothing changes any more, so nothing is logged again.
    await shop.deliver()
    expect(linesOf(shop)).toHaveLength(1)
  })

  it('nothing of the company can be delivered, because its credentials cannot be read', async () => {
    const { shop } = await Shop.openWithOrder()
    await sql(`UPDATE integrations SET credentials = 'v1.0.x' WHERE company_id = ?`, shop.company.id)
    await shop.deliver()
    expect(linesOf(shop)).toEqual([
      { event: 'outbox', state: 'company_stopped', cause: 'credentials_unreadable', company_id: shop.company.id },
    ])
  })

  it('none of this happens, which is no line', async () => {
    const { shop } = await Shop.openWithOrder()
    await shop.world.spoil({ match: INVOICE_POST, status: 500, body: '{}' })
    await shop.deliver()
    await shop.deliverLater()
    expect(linesOf(shop)).toEqual([])
  })
})
