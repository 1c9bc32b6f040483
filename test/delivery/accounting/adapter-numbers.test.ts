import { expect, it } from 'vitest'
import { buildCreateCall } from '../../../src/delivery/accounting/invoice-payload.ts'
import { openAccount } from './adapter-support.ts'
import { makeOrder } from './support.ts'

it('finds the highest number up to the ceiling, the ceiling itself too', async () => {
  const { adapter, references } = await openAccount()
  expect(await adapter.findLastNumber(5_000)).toBe(0)
  for (const number of ['1500', '2000', '2001', 'A-1900']) {
    await adapter.sendInvoice(buildCreateCall(makeOrder({ number }), references), number)
  }
  expect(await adapter.findLastNumber(1_999)).toBe(1_500)
  expect(await adapter.findLastNumber(2_000)).toBe(2_000)
  expect(await adapter.findLastNumber(5_000)).toBe(2_001)
})
