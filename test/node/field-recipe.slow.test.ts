import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

/*
 * The README's recipe for a field of a client, carried out in a copy of the repository with `nickname`. The README names
 * every file of it. `test/kernel/db/columns.test.ts` notices a column that one of them does not have.
 */
const ROOT = join(import.meta.dirname, '../..')
const copy = mkdtempSync(join(tmpdir(), 'recipe-'))
const COPIED = [
  ...['src', 'test', 'drizzle', 'package.json', 'tsconfig.json', 'wrangler.toml', '.dev.vars'],
  ...['biome.json', 'README.md', 'LICENSE'],
]

/** The second text comes in place of the first. */
const STEPS: Record<string, [text: string, changed: string][]> = {
  'src/kernel/db/schema.ts': [
    ["    ...counted('clients'),", "    nickname: text(),\n    ...counted('clients'),"],
    ["textsWith())} + (${octets('email_key", "textsWith('nickname'))} + (${octets('email_key"],
  ],
  'src/resources/clients/contract.ts': [
    ['  phone: nullable(', "  nickname: nullable(trimmed(255), 'What the client is called.'),\n  phone: nullable("],
  ],
  'src/cli/sample-company.json': [
    ['{ "id": 18, "company_name": ', '{ "id": 18, "nickname": "Cedar", "company_name": '],
  ],
  'src/site/reference/introduction.md': [['### 1.1.0\n\n', '### 1.1.0\n\n- Clients have a `nickname`.\n\n']],
}

/** Those that look at the schema or at all fields of a client: nobody who follows the recipe has to change them. */
const UNCHANGED_TESTS = [
  'test/kernel/db/columns.test.ts',
  'test/kernel/db/database-text.test.ts',
  'test/kernel/db/migrations.isolated.test.ts',
  'test/kernel/db/outdated-schema.fresh.test.ts',
  'test/kernel/db/released-sql.isolated.test.ts',
  'test/kernel/db/sweep.isolated.test.ts',
  'test/node/cli-seed-file.test.ts',
  'test/resources/clients/clients.test.ts',
  'test/resources/clients/external-id.test.ts',
]

const TEST = `
import { applyD1Migrations } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { expect, it } from 'vitest'
import { seedFile } from '../src/operation/copies/seed/file.ts'
import { readExport } from '../src/cli/split-file.ts'
import { compareSchema } from '../src/kernel/db/refusals.ts'
import { adminCall } from './support/admin.ts'
import { migrate, mintCompany, removeEverything, sql } from './support/app.ts'
import { backUp, restore, wipe } from './operation/copies/support.ts'

it('is applied, required, listed, exported and restored', async () => {
  const newest = env.TEST_MIGRATIONS.at(-1)
  expect(newest?.name).toMatch(/^00\\d\\d_nickname\\.sql$/)
  await removeEverything()
  await applyD1Migrations(env.DB, env.TEST_MIGRATIONS.slice(0, -1))
  await sql("INSERT INTO companies (id, slot, name, created_at, updated_at) VALUES (1, 999, 'a', 0, 0)")
  await sql(
    "INSERT INTO clients (company_id, id, company_name, company_name_key, created_at, updated_at) VALUES (1, 10, 'a', 'A', 0, 0)",
  )
  const storedBytes = async (of: number) =>
    (await sql<{ stored_bytes: number }>('SELECT stored_bytes FROM companies WHERE id = ?', of))[0]?.stored_bytes ?? 0
  const stored = await storedBytes(1)
  expect(stored).toBeGreaterThan(200)
  const before = await adminCall('GET', '/companies')
  expect(before.status).toBe(503)
  await migrate()
  expect(compareSchema(newest?.name ?? '').needed).toBe(newest?.name)

  expect(await sql('SELECT stored_bytes FROM clients WHERE company_id = 1')).toEqual([{ stored_bytes: stored }])
  await sql("UPDATE clients SET nickname = '" + 'é'.repeat(100) + "' WHERE company_id = 1")
  expect(await storedBytes(1)).toBe(stored + 225)

  await mintCompany({ home: 'DB' })
  const { id, call } = await mintCompany({ home: 'DB' })
  const sent = { company_name: 'Old Mill', nickname: 'Milly' }
  const created = await call('POST', '/clients', sent)
  expect(created.body.client).toMatchObject(sent)
  const { id: clientId } = created.body.client
  expect((await call('GET', '/clients')).body.data).toMatchObject([sent])
  expect((await call('GET', '/clients?sort=id')).body.data).toMatchObject([sent])
  expect((await call('GET', '/clients/' + clientId)).body.client).toMatchObject(sent)
  const changed = await call('PATCH', '/clients/' + clientId, { nickname: 'Mills' })
  expect(changed.body.client.nickname).toBe('Mills')
  const own = '/clients/by-external-id/a'
  await call('PUT', own, { company_name: 'Own', nickname: 'Owny' })
  expect((await call('PUT', own, { company_name: 'Own' })).body.client.nickname).toBe(null)

  const { body } = await adminCall('GET', '/companies/' + id + '/export')
  const { file } = await readExport(String(body).split('\\n'))
  expect(file.clients).toContainEqual(expect.objectContaining({ company_name: 'Old Mill', nickname: 'Mills' }))
  expect(seedFile.parse(file).clients).toContainEqual(expect.objectContaining({ nickname: 'Mills' }))

  await backUp(id)
  await wipe(id)
  expect(await restore(id, new Date(Date.now() + 60_000).toISOString())).toMatchObject({ done: true })
  const rows = await sql('SELECT nickname FROM clients WHERE company_id = ? AND id = ?', id, clientId)
  expect(rows).toEqual([{ nickname: 'Mills' }])
})
`

function run(command: string, args: string[]) {
  const options = { cwd: copy, encoding: 'utf8', env: { ...process.env, NO_COLOR: '1' } } as const
  const { status, stdout, stderr } = spawnSync(join(ROOT, 'node_modules/.bin', command), args, options)
  return { status, output: `${stdout}${stderr}` }
}

function apply(path: string): void {
  let file = readFileSync(join(copy, path), 'utf8')
  for (const [text, changed] of STEPS[path] ?? []) {
    expect(file.split(text), `${path}: ${text}`).toHaveLength(2)
    file = file.replace(text, () => changed)
  }
  writeFileSync(join(copy, path), file)
}

const GENERATE = ['generate', '--config', 'drizzle/drizzle.config.ts', '--name', 'nickname']
const BREAK = '--> statement-breakpoint'

/** The statements that drizzle-kit has written, in the order of the guide's example. */
function orderedAsInGuide(written: string[]): string {
  const guide = readFileSync(join(ROOT, 'src/site/guides/upgrades.md'), 'utf8')
  const [, example = ''] = /^```sql\n(.*?)^```$/ms.exec(guide) ?? []
  const [before = ''] = example.split('…')
  const start = before.slice(before.lastIndexOf('\n') + 1)
  const whole = written.find((statement) => statement.trim().startsWith(start))?.trim() ?? ''
  expect(whole).toContain('nickname')
  return example.replace(/^.*….*$/m, () => whole)
}

const migrations = () => readdirSync(join(copy, 'drizzle')).filter((name) => name.endsWith('.sql'))

beforeAll(() => {
  for (const name of COPIED) cpSync(join(ROOT, name), join(copy, name), { recursive: true })
  symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'))
})
afterAll(() => rmSync(copy, { recursive: true, force: true }))

// Its tests are steps.
describe('the recipe for a field', { shuffle: false }, () => {
  it('names every file that it changes', () => {
    const [, recipe = ''] =
      /^### A field of a client$(.*?)^## /ms.exec(readFileSync(join(ROOT, 'README.md'), 'utf8')) ?? []
    for (const path of Object.keys(STEPS)) expect(recipe).toContain(path)
    expect(recipe).toContain('drizzle-kit generate --config drizzle/drizzle.config.ts')
  })

  it('has a migration generated, which adds the column and has the next number', () => {
    const before = migrations()
    apply('src/kernel/db/schema.ts')
    expect(run('drizzle-kit', GENERATE).status).toBe(0)
    const [added = '', ...others] = migrations().filter((name) => !before.includes(name))
    expect(others).toEqual([])
    expect(added.slice(0, 4)).toBe(String(before.length).padStart(4, '0'))
    const written = readFileSync(join(copy, 'drizzle', added), 'utf8').split(BREAK)
    expect(written.map((statement) => statement.trim()).toSorted()).toEqual([
      expect.stringMatching(/^ALTER TABLE `clients` ADD `nickname` text;$/),
      expect.stringMatching(/^ALTER TABLE `clients` ADD `stored_bytes` .*nickname/),
      'ALTER TABLE `clients` DROP COLUMN `stored_bytes`;',
    ])
    writeFileSync(join(copy, 'drizzle', added), orderedAsInGuide(written))
  })

  it('leads to a field that is applied, required, listed, exported and restored', { timeout: 600_000 }, () => {
    for (const path of Object.keys(STEPS).slice(1)) apply(path)
    expect(run('tsc', ['-p', 'src/tsconfig.worker.json'])).toEqual({ status: 0, output: '' })
    execFileSync(process.execPath, ['src/site/reference/build.ts'], { cwd: copy, stdio: 'ignore' })
    execFileSync(process.execPath, ['src/site/reference/build.ts', '--assets'], { cwd: copy, stdio: 'ignore' })
    for (const published of ['src/site/reference/openapi.json', 'src/client/schema.d.ts']) {
      expect(readFileSync(join(copy, published), 'utf8')).toContain('nickname')
    }
    writeFileSync(join(copy, 'test/nickname.isolated.test.ts'), TEST)
    const files = ['test/nickname.isolated.test.ts', ...UNCHANGED_TESTS]
    const projects = ['worker', 'worker-fresh', 'node'].flatMap((name) => ['--project', name])
    const vitest = run('vitest', ['run', '--config', 'test/vitest.config.ts', ...projects, ...files])
    expect(vitest.status, vitest.output).toBe(0)
  })
})
