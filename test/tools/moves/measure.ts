import { setTimeout as sleep } from 'node:timers/promises'
import { inTurn } from '../harness/load.ts'
import { addLookAlikes, fillCompany } from './fill.ts'
import { administer, ask, makeTokens, openService, startMove } from './service.ts'

const COMPANY = 1
const PAUSE_MS = 25

/** Moves a company of so many orders while it is read and written, and measures for how long writes are refused. */
export async function measureMove(orders: number) {
  await using service = await openService()
  await addLookAlikes(service)
  await administer(service, 'POST', '/companies', { id: COMPANY, name: 'Large', database: 'DB' })
  await service.write('DB', (db) => fillCompany(db, COMPANY, orders))
  const token = inTurn(await makeTokens(service, COMPANY, 45))
  const figures = { refused: 0, acknowledged: 0, failedReads: 0, withoutRetryAfter: 0 }
  let isMoving = true
  const write = async () => {
    let isRefused = false
    for (let count = 0; isMoving || isRefused; count++) {
      const sent = await ask(service, token(), 'POST', '/api/v1/clients', { company_name: `Written ${count}` })
      isRefused = sent.status === 503
      figures[isRefused ? 'refused' : 'acknowledged']++
      if (isRefused && !/^\d+$/.test(sent.headers.get('retry-after') ?? '')) figures.withoutRetryAfter++
      if (!isRefused && sent.status !== 200) throw new Error(`${sent.status} ${JSON.stringify(sent.body)}`)
      await sleep(PAUSE_MS)
    }
  }
  const read = async () => {
    for (let count = 0; isMoving; count++) {
      const shown = await ask(service, token(), 'GET', `/api/v1/orders/${(count % orders) + 1}`)
      if (shown.status !== 200) figures.failedReads++
      await sleep(4 * PAUSE_MS)
    }
  }
  const startedAt = Date.now()
  const move = startMove(service, COMPANY, 'DB_TWO').ended.finally(() => {
    isMoving = false
  })
  const [{ code, output }] = await Promise.all([move, write(), read()])
  if (code !== 0) throw new Error(output)
  const [, rows, frozenMs] = /(\d+) rows copied\. Writes were refused for (\d+) ms/.exec(output) ?? []
  const seconds = Math.round((Date.now() - startedAt) / 1_000)
  return { orders, rows: Number(rows), seconds, frozenMs: Number(frozenMs), ...figures }
}
