import { readdirSync } from 'node:fs'
import { mkdtempDisposable, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { backup, DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { readSampleSeed } from '../../../src/cli/sample-company.ts'
import { importSeed } from '../../../src/cli/seed-file.ts'
import { connect } from '../../../src/cli/target.ts'
import { PERMISSIONS } from '../../../src/kernel/gate/permissions.ts'
import { createToken } from '../../../src/operation/admin/tokens/contract.ts'
import { credentialsFor, startAccounting } from '../../../src/simulators/accounting.ts'
import { type RunningDev, startDev } from '../../node/servers.ts'
import type { Random } from '../../support/random.ts'
import { LOOK_ALIKE } from '../harness/company.ts'
import { type Answer, ask } from '../harness/http.ts'
import { findWorker, killProcess } from '../harness/processes.ts'

/** A token may make 300 requests a minute, so writes go round many of them. */
const TOKENS = 45

export type Shop = Awaited<ReturnType<typeof openShop>>

/**
 * A shop with a year of work behind it, in a state directory of its own. Its accounting system runs here and outlives
 * every crash.
 */
export async function openShop() {
  await using opened = new AsyncDisposableStack()
  const { path: folder, remove } = await mkdtempDisposable(join(tmpdir(), 'crm-crash-'))
  opened.defer(remove)
  const state = join(folder, 'state')
  const accounting = await startAccounting()
  opened.defer(accounting.close)
  const tokens = await fill(state, accounting.url)
  const shop = opened.move()
  return {
    state,
    tokens,
    /** Which token the next change of a thing comes with. */
    turns: new Map<string, number>(),
    copyDatabase: () => copyDatabase(state, join(folder, 'copy.sqlite')),
    close: () => shop.disposeAsync(),
  }
}

async function fill(state: string, accountingUrl: string): Promise<string[]> {
  await using service = await connect({ state })
  const sample = readSampleSeed(Date.now())
  await importSeed(service, { ...sample, company: { id: LOOK_ALIKE, name: 'Look-alike' } }, 'The look-alike')
  const file = {
    ...sample,
    // With another name, `npm run dev` leaves the integrations as they are.
    company: { ...sample.company, name: 'Shop' },
    integrations: { accounting_sync: { base_url: accountingUrl, credentials: { ...credentialsFor('1') } } },
  }
  await importSeed(service, file, 'The shop')
  const body = { name: 'crash', permissions: [...PERMISSIONS] }
  const tokens: string[] = []
  for (let count = 0; count < TOKENS; count++) {
    tokens.push((await service.call(createToken, { params: { company_id: 1 }, body })).token)
  }
  return tokens
}

/** A consistent copy of the database, taken while the service runs; each replaces the one before. */
async function copyDatabase(state: string, path: string): Promise<string> {
  const folder = join(state, 'v3/d1/miniflare-D1DatabaseObject')
  const file = readdirSync(folder).find((name) => name.endsWith('.sqlite') && !name.startsWith('metadata'))
  if (file === undefined) throw new Error('There is no database.')
  await rm(path, { force: true })
  using source = new DatabaseSync(join(folder, file), { readOnly: true, timeout: 5_000 })
  // All pages in one step: what is written meanwhile does not make it start again.
  await backup(source, path, { rate: 1_000_000 })
  return path
}

const READY_MS = 240_000
const PAUSE_MS = 50
const REQUEST_MS = 2_000

/** Which processes a crash ends: the one that serves, or all that `npm run dev` started, itself included. */
export type Victim = 'workerd' | 'group'

export type Service = Awaited<ReturnType<typeof startService>>

/** Starts `npm run dev` on a state directory and a free port, in a process group of its own. */
export async function startService(state: string) {
  const dev = await startDev({ state, detached: true })
  return {
    /** The URL up to `/api/v1`. */
    url: dev.url,
    kill: (victim: Victim) => process.kill(victim === 'group' ? -dev.pid : findWorker(dev.pid), 'SIGKILL'),
    /** Resolves once it responds, after a start or after a crash of the runtime, which restarts by itself. */
    waitUntilServing: (token: string) => waitUntilServing(dev, token),
    async stop() {
      await dev.stop()
      // What outlived a kill.
      killProcess(-dev.pid)
    },
  }
}

async function waitUntilServing({ url, output, isRunning }: RunningDev, token: string) {
  const end = Date.now() + READY_MS
  let seen: Answer | undefined
  // Without a response it is being restarted.
  while (Date.now() < end && isRunning()) {
    seen = await ask({ url }, token, 'GET', '/api/v1/clients?per_page=1', { timeoutMs: REQUEST_MS })
    if (seen.status === 200) return
    await sleep(PAUSE_MS)
  }
  throw new Error(
    `The service did not get ready (${seen?.status} ${JSON.stringify(seen?.body)}): ${output.stderr.slice(-2_000).trim()}`,
  )
}

/** Gives work a shop of its own, and the service that runs on it. */
export async function withService<T>(work: (shop: Shop, service: Service) => Promise<T>): Promise<T> {
  await using opened = new AsyncDisposableStack()
  const shop = await openShop()
  opened.defer(shop.close)
  const service = await startService(shop.state)
  opened.defer(service.stop)
  await service.waitUntilServing(shop.tokens[0] ?? '')
  return await work(shop, service)
}

/** When the runtime is killed, after it serves. */
const KILL_AFTER_MS = [100, 800] as const

/**
 * Kills the runtime again and again at random moments, until the work has ended.
 *
 * @param whenKilled runs before the runtime serves again
 * @returns the number of kills
 */
export async function killUntilDone(
  [shop, service]: [Shop, Service],
  random: Random,
  work: Promise<unknown>,
  whenKilled: () => Promise<void> = async () => {},
): Promise<number> {
  let isDone = false
  const done = work.finally(() => {
    isDone = true
  })
  const kill = async () => {
    for (let kills = 0; ; kills++) {
      await sleep(random.between(...KILL_AFTER_MS))
      if (isDone) return kills
      service.kill('workerd')
      await whenKilled()
      await service.waitUntilServing(shop.tokens.at(-1) ?? '')
    }
  }
  const [kills] = await Promise.all([kill(), done])
  return kills
}
