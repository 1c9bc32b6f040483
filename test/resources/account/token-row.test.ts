import { env } from 'cloudflare:workers'
import { beforeAll, expect, it } from 'vitest'
import type { RequestContext } from '../../../src/kernel/api/context.ts'
import { openDatabase } from '../../../src/kernel/db/client.ts'
import { findAccount } from '../../../src/resources/account/queries.ts'
import { migrate, mintCompany, sql } from '../../support/app.ts'

beforeAll(migrate)

it('reads the token among those of the company alone, in one database and in two', async () => {
  const [other, own] = [await mintCompany({ home: 'DB' }), await mintCompany({ home: 'DB' })]
  const find = async (of: number, database: string) => {
    const [row] = await sql('SELECT id FROM api_tokens WHERE company_id = ?', of)
    const db = openDatabase(env.DB)
    // The query uses nothing else of a context.
    const context = { companyId: own.id, db, openDirectory: () => db, token: { id: row?.id, database } }
    return findAccount(context as unknown as RequestContext)
  }
  for (const database of ['DB', 'DB_TWO']) {
    expect(await find(own.id, database)).toMatchObject({
      company: { name: `Company ${own.id}` },
      token: { name: 'test' },
    })
    await expect(find(other.id, database)).rejects.toThrow('has no row')
  }
})
