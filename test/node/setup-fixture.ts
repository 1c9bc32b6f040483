import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished, vi } from 'vitest'
import { openAccount } from '../../src/cli/setup-account.ts'
import { type SetupOptions, setUp } from '../../src/cli/setup-resources.ts'
import { type AccountApi, startAccountApi } from './account-api.ts'

/** An empty account, and a copy of wrangler.toml of its own. */
export async function freshAccount(): Promise<{ api: AccountApi; config: string; readConfig: () => string }> {
  const api = await startAccountApi()
  const folder = mkdtempSync(join(tmpdir(), 'crm-setup-'))
  onTestFinished(() => {
    api.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const config = join(folder, 'wrangler.toml')
  cpSync('wrangler.toml', config)
  for (const name of ['drizzle', 'src', 'node_modules']) symlinkSync(join(process.cwd(), name), join(folder, name))
  return { api, config, readConfig: () => readFileSync(config, 'utf8') }
}

/** Adds a further database to production, in a copy of wrangler.toml. */
export function addDatabase(config: string): { binding: string; name: string } {
  const [binding, name] = ['DB_APAC', 'crm-integration-api-production-apac']
  const id = '00000000-0000-0000-0000-000000000000'
  const keys = [`binding = "${binding}"`, `database_name = "${name}"`, `database_id = "${id}"`]
  appendFileSync(config, ['', '[[env.production.d1_databases]]', ...keys, 'migrations_dir = "drizzle"', ''].join('\n'))
  return { binding, name }
}

/** Runs setup in this process, and returns what it printed; an error has that too. */
export async function setUpHere(
  api: AccountApi,
  given: Partial<SetupOptions> & { config: string; isDryRun?: boolean },
) {
  const { isDryRun = false } = given
  const options = {
    env: 'production',
    isDryRun,
    location: 'weur',
    jurisdiction: null,
    domains: [],
    secrets: {},
    ...given,
  }
  const lines: string[] = []
  const write = vi.spyOn(process.stdout, 'write').mockImplementation((text) => lines.push(String(text)) > 0)
  const silent = vi.spyOn(process.stderr, 'write').mockReturnValue(true)
  try {
    await setUp(openAccount(isDryRun, api.env), options)
  } catch (error) {
    throw Object.assign(error instanceof Error ? error : new Error(), { printed: lines.join('') })
  } finally {
    write.mockRestore()
    silent.mockRestore()
  }
  return lines.join('')
}

/** Runs a command with an environment that has no other credentials. */
export async function runAt(
  api: AccountApi,
  command: 'setup' | 'migrate',
  args: string[],
  env: NodeJS.ProcessEnv = {},
) {
  const { PATH, HOME } = process.env
  const child = spawn(process.execPath, [`src/cli/${command}.ts`, ...args], { env: { PATH, HOME, ...api.env, ...env } })
  const outcome = { code: null as number | null, stdout: '', stderr: '' }
  child.stdout.setEncoding('utf8').on('data', (text) => {
    outcome.stdout += text
  })
  child.stderr.setEncoding('utf8').on('data', (text) => {
    outcome.stderr += text
  })
  const [code] = await once(child, 'close')
  return { ...outcome, code }
}
