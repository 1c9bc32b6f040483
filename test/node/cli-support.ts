import { readdirSync } from 'node:fs'
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises'
import type { RequestListener } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync, type SQLInputValue } from 'node:sqlite'
import { expect, inject, onTestFinished, vi } from 'vitest'
import { startRuntime } from '../../src/cli/local-runtime.ts'
import { claimState } from '../../src/cli/target.ts'
import type { SeedInput } from '../../src/operation/copies/seed/file.ts'
import { lookAlike } from '../support/look-alike-sql.ts'
import { smallShop } from '../support/small-shop.ts'
import { SEEDED } from '../support/tables.ts'
import { type Command, listen, type Outcome, type ServiceCommand, startCommand } from './servers.ts'

export const makeStateFolder = () => mkdtemp(join(tmpdir(), 'crm-state-'))

/** An empty folder until the end of the test. */
export async function temporaryFolder(): Promise<string> {
  const folder = await makeStateFolder()
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return folder
}

/** Serves until the end of the test. @returns the address */
export async function serve(handle: RequestListener): Promise<string> {
  const { url, close } = await listen(handle)
  onTestFinished(close)
  return url
}

/** A state directory of the test's own with an empty database. */
export async function freshState(): Promise<string> {
  const state = await temporaryFolder()
  await cp(inject('emptyState'), state, { recursive: true })
  return state
}

/** Behind the companies under test in lists, which are by id. */
const LOOK_ALIKE = 9

/** A state directory of the test's own with a company that is none of the test's, in slot 0. */
export async function stateWithLookAlike(): Promise<string> {
  const state = await freshState()
  for (const text of lookAlike(LOOK_ALIKE)) runSql(state, text)
  return state
}

/** The same, or the given one, served until the end of the test: commands need no runtime of their own. */
export async function servedState(given?: string): Promise<string> {
  const state = given ?? (await stateWithLookAlike())
  const claim = await claimState(state)
  if ('url' in claim) throw new Error('It is served already.')
  const runtime = await startRuntime(state)
  claim.publish(runtime.url)
  onTestFinished(async () => {
    await runtime.close()
    claim.release()
  })
  return state
}

/** The same with shop 7. */
export async function stateWithShop(given?: string): Promise<string> {
  const state = given ?? (await servedState())
  await runHere('seed', [await writeSeed(smallShop(7)), '--state', state])
  return state
}

/** Serves a resolver by which every host has a public address, to services that the test starts from now on. */
export async function resolveAllHosts(): Promise<void> {
  const answer = JSON.stringify({ Status: 0, Answer: [{ type: 1, data: '1.1.1.1' }] })
  vi.stubEnv('WEBHOOK_RESOLVER', `${await serve((_, response) => response.end(answer))}/dns-query`)
  onTestFinished(() => void vi.unstubAllEnvs())
}

export const runCommand = (name: Command, ...args: string[]) => startCommand(name, args).ended

/** Runs a command that must succeed and complain of nothing. @returns what it prints */
export async function outputOf(name: Command, ...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await runCommand(name, ...args)
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  return stdout
}

let runs = 0

/**
 * Runs a command in this process, with `env` beside its environment: a start of Node takes a second. One at a time.
 * `cli-refusals.test.ts` starts every command as its npm script does.
 */
export async function runHere(
  name: ServiceCommand,
  args: string[],
  env: Record<string, string> = {},
): Promise<Outcome> {
  const outcome: Outcome = { code: 0, stdout: '', stderr: '' }
  const { argv, exitCode } = process
  const listen = vi.spyOn(process.stdout, 'on').mockReturnValue(process.stdout)
  const log = vi.spyOn(console, 'log').mockImplementation((text) => {
    outcome.stdout += `${text}\n`
  })
  const error = vi.spyOn(console, 'error').mockImplementation((text) => {
    outcome.stderr += `${text}\n`
  })
  for (const [key, value] of Object.entries(env)) vi.stubEnv(key, value)
  process.argv = ['node', name, ...args]
  process.exitCode = 0
  try {
    // The module of a command runs it. Under another address it is another module.
    await import(/* @vite-ignore */ `../../src/cli/${name}.ts?run=${++runs}`)
    return { ...outcome, code: Number(process.exitCode) }
  } finally {
    process.argv = argv
    process.exitCode = exitCode
    vi.unstubAllEnvs()
    for (const spy of [listen, log, error]) spy.mockRestore()
  }
}

/** Expects that each command line fails with one line that has the message. Those without a place get `state`. */
export async function expectRefused(
  name: ServiceCommand,
  state: string,
  cases: [args: string[], message: string][],
  env: Record<string, string> = {},
): Promise<void> {
  for (const [args, message] of cases) {
    const where = args.includes('--state') || args.includes('--remote') ? [] : ['--state', state]
    const outcome = await runHere(name, [...args, ...where], env)
    const line = expect.stringMatching(/^[^\n]+\n$/)
    expect(outcome, args.join(' ')).toEqual({ code: 1, stdout: '', stderr: line })
    expect(outcome.stderr).toContain(message)
  }
}

/** Writes a seed file for the test and returns its path. */
export async function writeSeed(content: SeedInput | string | Uint8Array): Promise<string> {
  const path = join(await temporaryFolder(), 'shop.json')
  const isFile = typeof content === 'string' || content instanceof Uint8Array
  await writeFile(path, isFile ? content : JSON.stringify(content))
  return path
}

/** Runs SQL on the database file itself. */
export const runSql = (state: string, sql: string, ...params: SQLInputValue[]) =>
  runSqlIn(join(state, 'v3/d1/miniflare-D1DatabaseObject'), sql, params)

/** The rows of a query of the local KV, whose entries are a table. */
export const runSqlOfKv = (state: string, sql: string) =>
  runSqlIn(join(state, 'v3/kv/miniflare-KVNamespaceObject'), sql)

function runSqlIn(folder: string, sql: string, params: SQLInputValue[] = []): Record<string, unknown>[] {
  const file = readdirSync(folder).find((name) => name.endsWith('.sqlite') && !name.startsWith('metadata'))
  if (file === undefined) throw new Error('There is no database.')
  const database = new DatabaseSync(join(folder, file), { timeout: 5_000 })
  try {
    return database
      .prepare(sql)
      .all(...params)
      .map((row) => ({ ...row }))
  } finally {
    database.close()
  }
}

const TABLES = ['companies', ...SEEDED, 'integrations', 'api_tokens']

/** All rows that a seed or a token command can change, of one company or of all. */
export function readAll(state: string, companyId?: number): Record<string, Record<string, unknown>[]> {
  const isOf = (table: string) =>
    companyId ? `WHERE ${table === 'companies' ? 'id' : 'company_id'} = ${companyId}` : ''
  return Object.fromEntries(TABLES.map((table) => [table, runSql(state, `SELECT * FROM ${table} ${isOf(table)}`)]))
}
