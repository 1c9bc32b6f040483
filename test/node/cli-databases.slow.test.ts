import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { smallShop } from '../support/small-shop.ts'
import { ADMIN_TOKEN, type Name, openService, type Service } from '../tools/moves/service.ts'
import { makeStateFolder, outputOf, runCommand } from './cli-support.ts'

let service: Service
let folder: string

beforeAll(async () => {
  service = await openService()
  vi.stubEnv('CRM_API_URL', service.url)
  vi.stubEnv('CRM_ADMIN_TOKEN', ADMIN_TOKEN)
  expect(await outputOf('companies', 'create', '7', '--database', 'DB_TWO')).toBe(
    'Created company 7 (Company 7) in DB_TWO.\n',
  )
  folder = await makeStateFolder()
  for (const id of [7, 8]) {
    const path = join(folder, `${id}.json`)
    await writeFile(path, JSON.stringify(smallShop(id)))
    await outputOf('seed', path)
  }
})
afterAll(async () => {
  vi.unstubAllEnvs()
  await service.close()
  await rm(folder, { recursive: true, force: true })
})

const count = (name: Name, table: string, companyId: number) =>
  service.read<{ n: number }>(name, `SELECT count(*) AS n FROM ${table} WHERE company_id = ?`, companyId)[0]?.n

describe('a company in another database', () => {
  it('is filled, used and administered as any other', async () => {
    const list = await outputOf('companies', 'list')
    expect(list).toMatch(/^7 +Shop 7 +DB_TWO +active +1 +2\n8 +Shop 8 +DB +active +1 +2$/m)
    expect(list).toMatch(/^DB +1 +3 +\d+\.\d MB +0\.\d\d %\nDB_TWO +1 +3 +\d+\.\d MB +0\.\d\d %$/m)
    expect([count('DB', 'clients', 7), count('DB_TWO', 'clients', 7), count('DB_TWO', 'clients', 8)]).toEqual([0, 2, 0])

    const token = (await outputOf('tokens', 'create', '--company', '7', '--name', 'a')).trim()
    expect([count('DB', 'api_tokens', 7), count('DB_TWO', 'api_tokens', 7)]).toEqual([1, 0])
    const read = () => fetch(`${service.url}/api/v1/clients/1`, { headers: { authorization: `Bearer ${token}` } })
    expect((await read()).status).toBe(200)
    expect(await outputOf('companies', 'export', '7')).toContain('"company_name":"BEGIN TRANSACTION')
    expect(await outputOf('rotate-key')).toBe(
      'Nothing was encrypted: every stored value uses the first key of CREDENTIALS_KEY. If the new one is not first yet, put it first, deploy it, and repeat this.\n',
    )
  })

  it('moves, and is as it was', async () => {
    const exported = () => outputOf('companies', 'export', '7')
    const contents = async () => (await exported()).split('\n').filter((line) => line.startsWith('{"type":"clients"'))
    const before = await contents()
    expect(before).toHaveLength(2)
    for (const [from, to] of [
      ['DB_TWO', 'DB'],
      ['DB', 'DB_TWO'],
    ] as const) {
      const { code, stdout, stderr } = await runCommand('companies', 'move', '7', '--to', to)
      expect([code, stdout]).toEqual([
        0,
        expect.stringMatching(
          new RegExp(`^Company 7 is in ${to}: \\d+ rows copied\\. Writes were refused for \\d+ ms\\.\n$`),
        ),
      ])
      expect(stderr).toMatch(new RegExp(`^(${from} to ${to}: [a-z]+, \\d+ rows copied\\.\n)*$`))
      expect([count(from, 'clients', 7), count(to, 'clients', 7)]).toEqual([0, 2])
      expect(await contents()).toEqual(before)
    }
    expect(await outputOf('companies', 'move', '7', '--to', 'DB_TWO')).toMatch(
      /^Company 7 is in DB_TWO: 0 rows copied\.\n$/,
    )
  })

  it.each([
    [['create', '7', '--database', 'DB_TWO'], 'There is a company 7 already'],
    [['create', '9', '--database', 'DB_THREE'], 'DB or DB_TWO'],
    [['create', '9', '--database', 'two'], '--database must be the binding of a database'],
    [['move', '7', '--to', 'DB_THREE'], '--to must be DB or DB_TWO: the databases of this deployment.'],
    [['move', '7'], "Option '--to' is required"],
    [['move', '99', '--to', 'DB'], 'There is no company 99.'],
  ])('%j is refused in one line', async (args, message) => {
    const { code, stdout, stderr } = await runCommand('companies', ...args)
    expect({ code, stdout, lines: stderr.trimEnd().split('\n').length }).toEqual({ code: 1, stdout: '', lines: 1 })
    expect(stderr).toContain(message)
  })
})
