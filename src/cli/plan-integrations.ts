import { isDeepStrictEqual } from 'node:util'
import { eq } from 'drizzle-orm'
import type { SqliteRemoteDatabase } from 'drizzle-orm/sqlite-proxy'
import {
  CredentialsError,
  decryptCredentials,
  encryptCredentials,
  type IntegrationKind,
  usesFirstKey,
} from '../auth/credentials.ts'
import { integrations } from '../db/schema.ts'
import { CommandError } from './command.ts'
import type { Query } from './database.ts'
import { insertOrReplace } from './load-rows.ts'
import type { IntegrationsFile } from './seed-integrations.ts'
import { resolveStorage } from './seed-storage.ts'

type Row = typeof integrations.$inferInsert

/** Statements that set the integrations to the file; none for those that are as the file says, secrets compared. */
export async function planIntegrations(
  orm: SqliteRemoteDatabase,
  companyId: number,
  file: IntegrationsFile,
  keys: string | null,
  now: number,
): Promise<Query[]> {
  const wanted = listWanted(file)
  if (wanted.length === 0) return []
  if (keys === null) throw new CommandError('CREDENTIALS_KEY is not set: integrations cannot be encrypted.')
  const stored = await orm.select().from(integrations).where(eq(integrations.company_id, companyId))
  const rows: Row[] = []
  for (const { credentials, ...rest } of wanted) {
    const before = stored.find((row) => row.kind === rest.kind)
    const isCurrent = before !== undefined && (await holds(keys, companyId, rest.kind, before.credentials, credentials))
    const kept = isCurrent ? before.credentials : await encrypt(keys, companyId, rest.kind, credentials)
    const row = { company_id: companyId, ...rest, credentials: kept, updated_at: now }
    if (!before || !isDeepStrictEqual({ ...row, updated_at: before.updated_at }, before)) rows.push(row)
  }
  return insertOrReplace(orm, integrations, [integrations.company_id, integrations.kind], rows)
}

function listWanted(file: IntegrationsFile) {
  const { supplier_a, supplier_b, accounting_sync, storage } = file
  const list: {
    kind: IntegrationKind
    enabled: boolean
    base_url: string
    settings: string
    credentials: Record<string, string>
  }[] = []
  if (supplier_a) list.push({ kind: 'supplier_a', ...common(supplier_a, supplier_a.base_url, {}) })
  if (supplier_b) list.push({ kind: 'supplier_b', ...common(supplier_b, supplier_b.base_url, {}) })
  if (accounting_sync) {
    const { base_url, token_url } = accounting_sync
    list.push({
      kind: 'accounting_sync',
      ...common(accounting_sync, base_url, token_url === undefined ? {} : { token_url }),
    })
  }
  if (storage) {
    const { endpoint, region, addressing } = resolveStorage(storage)
    list.push({ kind: 'storage', ...common(storage, endpoint, { bucket: storage.bucket, region, addressing }) })
  }
  return list
}

function common(
  { enabled, credentials }: { enabled: boolean; credentials: Record<string, string> },
  base_url: string,
  settings: object,
) {
  return { enabled, base_url, settings: JSON.stringify(settings), credentials }
}

async function encrypt(keys: string, companyId: number, kind: IntegrationKind, credentials: Record<string, string>) {
  try {
    return await encryptCredentials(keys, companyId, kind, credentials)
  } catch (error) {
    throw error instanceof CredentialsError ? new CommandError(error.message) : error
  }
}

/** Whether a stored value is, under the key in use, what the file says. */
async function holds(
  keys: string,
  companyId: number,
  kind: IntegrationKind,
  stored: string,
  wanted: Record<string, string>,
): Promise<boolean> {
  try {
    if (!(await usesFirstKey(keys, stored))) return false
    return isDeepStrictEqual(await decryptCredentials(keys, companyId, kind, stored), wanted)
  } catch (error) {
    if (error instanceof CredentialsError) return false
    throw error
  }
}
