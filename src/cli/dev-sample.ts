import { asc } from 'drizzle-orm'
import { CREDENTIALS as ACCOUNTING, startAccounting } from '../../test/simulators/accounting.ts'
import { ENDPOINT_PATH, CREDENTIALS as SUPPLIER_A, startSupplierA } from '../../test/simulators/supplier-a.ts'
import { CREDENTIALS as SUPPLIER_B, startSupplierB } from '../../test/simulators/supplier-b.ts'
import { PERMISSIONS } from '../auth/permissions.ts'
import { companies } from '../db/schema.ts'
import { type CommandDatabase, openDatabase, type Place } from './database.ts'
import { planIntegrations } from './plan-integrations.ts'
import { makeSampleCompany } from './sample-company.ts'
import { SAMPLE_COMPANY } from './sample-data.ts'
import { readCredentialsKey } from './secrets.ts'
import { checkSeed } from './seed-file.ts'
import { type IntegrationsFile, integrationsFile } from './seed-integrations.ts'
import { loadSeed } from './seed-plan.ts'
import { createToken, removeTokens } from './token-store.ts'

const TOKEN_NAME = 'sample (dev)'
/** Sample tokens live on, for those who noted one down, but not for ever. */
const TOKEN_KEPT_MS = 30 * 86_400_000

export interface Sample {
  company: { id: number; name: string }
  token: string
}

export interface Outside {
  /** How the sample company reaches the simulators. */
  integrations: IntegrationsFile
  close: () => Promise<void>
}

/** Starts simulators of the outside systems, on free ports of this machine. */
export async function startOutside(): Promise<Outside> {
  const [supplierA, supplierB, accounting] = await Promise.all([startSupplierA(), startSupplierB(), startAccounting()])
  return {
    integrations: integrationsFile.parse({
      supplier_a: { base_url: supplierA.url + ENDPOINT_PATH, credentials: SUPPLIER_A },
      supplier_b: { base_url: supplierB.url, credentials: SUPPLIER_B },
      accounting_sync: { base_url: accounting.url, credentials: ACCOUNTING },
    }),
    close: async () => {
      await Promise.all([supplierA.close(), supplierB.close(), accounting.close()])
    },
  }
}

/** Brings the database up to date, fills it when it has no company, and makes a token. */
export async function prepareSample(place: Place, outside: IntegrationsFile): Promise<Sample> {
  const database = await openDatabase(place)
  try {
    const now = Date.now()
    const company = (await findCompany(database)) ?? (await loadSample(database, now))
    if (company.id === SAMPLE_COMPANY.id && company.name === SAMPLE_COMPANY.name) {
      const keys = readCredentialsKey(place)
      await database.write(await planIntegrations(database.orm, company.id, outside, keys, now))
    }
    await removeTokens(database, TOKEN_NAME, now - TOKEN_KEPT_MS)
    const wanted = { companyId: company.id, name: TOKEN_NAME, permissions: [...PERMISSIONS], expiresAt: null }
    return { company, token: await createToken(database, wanted, now) }
  } finally {
    await database.close()
  }
}

async function findCompany({ orm }: CommandDatabase): Promise<Sample['company'] | undefined> {
  const { id, name, suspended } = companies
  const [company] = await orm.select({ id, name }).from(companies).orderBy(asc(suspended), asc(id)).limit(1)
  return company
}

async function loadSample(database: CommandDatabase, now: number): Promise<Sample['company']> {
  const file = checkSeed(makeSampleCompany(now), 'The sample company')
  await loadSeed(database, file, 'The sample company', null, now)
  return SAMPLE_COMPANY
}
