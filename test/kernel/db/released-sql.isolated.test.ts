import { applyD1Migrations } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { describe, expect, inject, it } from 'vitest'
import { COLUMNS } from '../../../src/kernel/db/columns.ts'
import { migrate, removeEverything, sql } from '../../support/app.ts'
import { runEverything } from '../../support/every-statement.ts'
import { type Call, recordSql, replay } from '../../support/record-sql.ts'
import text from './fixtures/released-sql.json?raw'

/*
 * A deployment migrates first: until its code is replaced everywhere, the last release runs on the new schema.
 *
 * `fixtures/released-sql.json` has what the last release sent to its database (see `every-statement.ts`), and hashes of the rows
 * that it got. Record it again with each release, before the next migration is added:
 *   RECORD_RELEASE=1 npx vitest run --config test/vitest.config.ts --project worker test/kernel/db/released-sql -u
 */
interface Release {
  /** Its newest migration. */
  migration: string
  /** Each once. */
  texts: string[]
  calls: [text: number, params: unknown[]][][]
  outcomes: string[]
}

const FILE = './fixtures/released-sql.json'
/** Longer calls differ from others in their number of rows only. */
const MAX_CHARACTERS = 20_000
const release: Release = JSON.parse(text)
const calls: Call[] = release.calls.map((call) => call.map(([at, params]) => [release.texts[at] ?? '', params]))

async function migrateTo(migration: string): Promise<void> {
  await removeEverything()
  await applyD1Migrations(
    env.DB,
    env.TEST_MIGRATIONS.filter(({ name }) => name <= migration),
  )
}

describe.skipIf(inject('recordsRelease'))('the statements of the last release', { timeout: 120_000 }, () => {
  it('are those of its whole schema', async () => {
    await migrateTo(release.migration)
    const tables = await sql<{ name: string }>(
      `SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' AND name NOT LIKE 'sqlite_%'
         AND name NOT LIKE '%\\_fts\\_%' ESCAPE '\\' AND name NOT LIKE '\\_cf%' ESCAPE '\\' AND name <> 'd1_migrations'`,
    )
    const unused = tables.filter(({ name }) => !release.texts.some((one) => one.includes(name)))
    // `every-statement.ts` moves no company.
    expect(unused.map(({ name }) => name)).toEqual(['moves'])
    expect(release.texts.length).toBeGreaterThan(100)
  })

  it('return the same rows on the present schema', async () => {
    await migrateTo('9999')
    // The release reads their names, and accepts more than it knows.
    await sql('DELETE FROM d1_migrations WHERE name > ?', release.migration)
    expect(differences(await replay(env.DB, calls))).toEqual([])
  })

  // A repeated request may get a result that the last release stored, whose columns have no names.
  it.each(Object.entries(COLUMNS))('have the columns of %s where the present code reads them', (table, columns) => {
    const column = String.raw`(printf\('%!\.17g', )?"${table}"\."\w+"\)?`
    const row = new RegExp(String.raw`json_array\("${table}"\."id"(, ${column})*`, 'g')
    const rows = new Set(release.texts.flatMap((one) => one.match(row) ?? []))
    const released = [...rows].map((one) => [...one.matchAll(/"\."(\w+)"/g)].map(([, name]) => name))
    const present = Object.values(columns).map(({ name }) => name)
    expect(released).toEqual([present.slice(0, released[0]?.length)])
  })

  it.each([
    // A column is renamed, or a trigger refuses what was accepted.
    ['ALTER TABLE taxes RENAME COLUMN rate TO percent', /\btaxes\b.*\brate\b/s],
    ["CREATE TRIGGER t BEFORE INSERT ON payments BEGIN SELECT RAISE(ABORT, 'no'); END", /INSERT INTO "?payments\b/i],
  ])('fail after %s', async (statement, affected) => {
    await removeEverything()
    await migrate()
    await sql(statement)
    const first = calls.findIndex((call) => call.some(([one]) => affected.test(one)))
    const outcomes = await replay(env.DB, calls.slice(0, first + 1))
    expect(differences(outcomes)).toEqual([textOf(calls[first])])
  })
})

/** The calls whose rows differ, as their statements. */
function differences(outcomes: string[]): string[] {
  return outcomes.flatMap((outcome, index) => (outcome === release.outcomes[index] ? [] : [textOf(calls[index])]))
}

function textOf(call: Call = []): string {
  return call.map(([one]) => one).join(';\n')
}

it.runIf(inject('recordsRelease'))('is recorded', { timeout: 300_000 }, async () => {
  await migrate()
  const everything: Call[] = []
  const real = env.DB
  Object.defineProperty(env, 'DB', { value: recordSql(real, everything), configurable: true, writable: true })
  await runEverything()
  Object.defineProperty(env, 'DB', { value: real, configurable: true, writable: true })
  const paramsOf = (call: Call) => JSON.stringify(call.map(([, params]) => params))
  const recorded = everything.filter((call) => paramsOf(call).length <= MAX_CHARACTERS)
  const migration = env.TEST_MIGRATIONS.at(-1)?.name ?? ''
  await migrateTo(migration)
  const outcomes = await replay(env.DB, recorded)
  const texts = [...new Set(recorded.flat().map(([one]) => one))]
  const compact = recorded.map((call) => call.map(([one, params]) => [texts.indexOf(one), params]))
  const lines = [texts, compact, outcomes].map((list) => `[\n${list.map((one) => JSON.stringify(one)).join(',\n')}\n]`)
  const [textLines, callLines, outcomeLines] = lines
  await expect(
    `{"migration": ${JSON.stringify(migration)},\n"texts": ${textLines},\n"calls": ${callLines},\n"outcomes": ${outcomeLines}}\n`,
  ).toMatchFileSnapshot(FILE)
})
