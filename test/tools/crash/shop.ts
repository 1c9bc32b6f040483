import { readdirSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { backup, DatabaseSync } from 'node:sqlite'
import { readSampleSeed } from '../../../src/cli/sample-company.ts'
import { importSeed } from '../../../src/cli/seed-file.ts'
import { connect } from '../../../src/cli/target.ts'
import { PERMISSIONS } from '../../../src/kernel/gate/permissions.ts'
import { createToken } from '../../../src/operation/admin/tokens/contract.ts'
import { credentialsFor, startAccounting } from '../../../src/simulators/accounting.ts'
import { LOOK_ALIKE } from '../bench/company.ts'

/** A token may make 300 requests a minute, so writes go round many of them. */
const TOKENS = 45

export type Shop = Awaited<ReturnType<typeof openShop>>

/**
 * A shop with a year of work behind it, in a state directory of its own. Its accounting system runs here and outlives
 * every crash.
 */
export async function openShop() {
  await using opened = new AsyncDisposableStack()
  const folder = await mkdtemp(join(tmpdir(), 'crm-crash-'))
  opened.defer(() => rm(folder, { recursive: true, force: true }))
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
  const source = new DatabaseSync(join(folder, file), { readOnly: true })
  try {
    // All pages in one step: what is written meanwhile does not make it start again.
    await backup(source, path, { rate: 1_000_000 })
    return path
  } finally {
    source.close()
  }
}
