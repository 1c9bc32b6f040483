import { expect, it } from 'vitest'
import { mintCompany } from '../../support/app.ts'
import { measured, stepsOf } from './moves/support.ts'

it('binds no text of more than 2,000,000 bytes, also where JSON escapes every character', async () => {
  const company = await mintCompany({ home: 'DB' })
  const { body } = await company.call('POST', '/clients', { company_name: 'Acme' })
  const text = '\u0001'.repeat(10_000)
  for (let i = 0; i < 24; i++) {
    const sent = { title: 'T', client_id: body.client.id, description: text, client_notes: text }
    expect((await company.call('POST', '/orders', sent)).status).toBe(200)
  }
  let longest = 0
  const bindings = measured((bytes) => {
    longest = Math.max(longest, bytes)
  })
  for await (const { done } of stepsOf(company.id, 'DB_TWO', bindings)) if (done) break
  expect(longest).toBeLessThan(2_000_000)
}, 120_000)
