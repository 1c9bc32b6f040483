import { env } from 'cloudflare:workers'
import { beforeAll, expect, it } from 'vitest'
import { findToken, hashToken, LAST_USED_EVERY_MS, touchToken } from '../../../src/kernel/gate/tokens.ts'
import { migrate, mintCompany, sql } from '../../support/app.ts'

beforeAll(migrate)

it('the last use of a token is written at most once a minute, and again when the minute is over', async () => {
  await mintCompany({ home: 'DB' })
  const { id, token: text } = await mintCompany({ home: 'DB' })
  const { token } = await findToken(env.DB, hashToken(text))
  if (!token) throw new Error('The token is unknown.')
  const written = async (now: number) => {
    await touchToken(env.DB, token, now)
    return (await sql('SELECT last_used_at FROM api_tokens WHERE company_id = ?', id))[0]?.last_used_at
  }
  expect(await written(1_000)).toBe(1_000)
  expect(await written(1_000 + LAST_USED_EVERY_MS - 1)).toBe(1_000)
  expect(await written(1_000 + LAST_USED_EVERY_MS)).toBe(1_000 + LAST_USED_EVERY_MS)
})
