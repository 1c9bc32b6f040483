import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Miniflare } from 'miniflare'
import { startBare } from '../bench/worker.ts'

const ROOT = join(import.meta.dirname, '../../..')

/** Gives work a temporary directory, which is removed after it. */
export async function inDirectory<T>(work: (directory: string) => Promise<T>): Promise<T> {
  const directory = await mkdtemp(join(tmpdir(), 'crm-tool-'))
  try {
    return await work(directory)
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

/** Fills the data of a state directory in a runtime that ends with it. */
export async function fillState<T>(state: string, fill: (worker: Miniflare) => Promise<T>): Promise<T> {
  await using runtime = await startBare('export default { fetch: () => new Response() }', state)
  return await fill(runtime.worker)
}

/** Names data that was filled once and is used again: other migrations, or another company, need other data. */
function dataVersion(): string {
  const migrations = readdirSync(join(ROOT, 'drizzle')).filter((name) => name.endsWith('.sql'))
  const sources = ['test/tools/harness/client-row.ts', 'test/tools/bench/company.ts']
  const hash = createHash('sha256')
  for (const path of [...migrations.sort().map((name) => join('drizzle', name)), ...sources]) {
    hash.update(readFileSync(join(ROOT, path)))
  }
  return hash.digest('hex').slice(0, 8)
}

/** Fills a state directory once per schema and caches it under `.bench/`: benchmarks work on copies. */
export async function fillOnce<Tokens>(name: string, fill: (worker: Miniflare) => Promise<Tokens>) {
  const cached = join(ROOT, '.bench', `${name}-${dataVersion()}`)
  const file = join(cached, 'tokens.json')
  if (!existsSync(file)) {
    rmSync(cached, { recursive: true, force: true })
    mkdirSync(cached, { recursive: true })
    writeFileSync(file, JSON.stringify(await fillState(cached, fill)))
  }
  const tokens: Tokens = JSON.parse(readFileSync(file, 'utf8'))
  return { cached, tokens }
}
