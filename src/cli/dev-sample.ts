import { asc } from 'drizzle-orm'
import { PERMISSIONS } from '../auth/permissions.ts'
import { companies } from '../db/schema.ts'
import { CREDENTIALS as ACCOUNTING, startAccounting } from '../simulators/accounting.ts'
import { ENDPOINT_PATH, CREDENTIALS as SUPPLIER_A, startSupplierA } from '../simulators/supplier-a.ts'
import { CREDENTIALS as SUPPLIER_B, startSupplierB } from '../simulators/supplier-b.ts'
import { type CommandDatabase, openDatabase, type Place } from './database.ts'
import { planIntegrations } from './plan-integrations.ts'
import { readSampleCompany } from './sample-company.ts'
import { readCredentialsKey } from './secrets.ts'
import { type IntegrationsFile, integrationsFile } from './seed-integrations.ts'
import { loadSeed } from './seed-plan.ts'
import { createToken, removeTokens } from './token-store.ts'

const TOKEN_NAME = 'sample (dev)'
/** Tokens of earlier starts stay valid for this long. */
const TOKEN_RETENTION_MS = 30 * 86_400_000

export interface Sample {
  company: { id: number; name: string }
  token: string
}

export interface Simulators {
  /** The integrations of a company that uses the simulators. */
  integrations: IntegrationsFile
  close: () => Promise<void>
}

/** Starts simulators of the suppliers and the accounting system, on free ports of this machine. */
export async function startSimulators(): Promise<Simulators> {
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

/** Updates the schema, loads the sample company into a database without companies, and creates a token. */
export async function prepareSample(place: Place, integrations: IntegrationsFile): Promise<Sample> {
  const database = await openDatabase(place)
  try {
    const now = Date.now()
    const file = readSampleCompany(now)
    let company = await findCompany(database)
    if (company === undefined) {
      await loadSeed(database, file, 'The sample company', null, now)
      company = file.company
    }
    if (company.id === file.company.id && company.name === file.company.name) {
      const keys = readCredentialsKey(place)
      await database.write(await planIntegrations(database.orm, company.id, integrations, keys, now))
    }
    await removeTokens(database, TOKEN_NAME, now - TOKEN_RETENTION_MS)
    const newToken = { companyId: company.id, name: TOKEN_NAME, permissions: [...PERMISSIONS], expiresAt: null }
    return { company, token: await createToken(database, newToken, now) }
  } finally {
    await database.close()
  }
}

async function findCompany({ orm }: CommandDatabase): Promise<Sample['company'] | undefined> {
  const { id, name, suspended } = companies
  const [company] = await orm.select({ id, name }).from(companies).orderBy(asc(suspended), asc(id)).limit(1)
  return company
}
