import * as z from 'zod/mini'
import { CredentialsError, decryptCredentials, encryptCredentials } from '../auth/credentials.ts'
import type { CompanyContext } from '../db/client.ts'
import { AccountingAdapter, type Tokens, tokensSchema } from './adapter.ts'
import { type ConnectionRow, type IntegrationRow, saveTokens, stopCompany, switchRemoteAccount } from './queries.ts'

/** Attempts to store rotated tokens: the ones before are void already. */
const SAVE_ATTEMPTS = 3

const filled = z.string().check(z.minLength(1))

const settingsSchema = z.object({ token_url: z.optional(z.string()) })

const credentialsSchema = z.object({
  realm_id: filled,
  client_id: filled,
  client_secret: filled,
  refresh_token: filled,
  item_id: z._default(filled, '1'),
  tax_code_id: z._default(z.nullable(filled), null),
  delete_mode: z._default(z.enum(['void', 'delete']), 'void'),
})

/** With the refresh token of the credentials they come from: another one means that the company connected anew. */
const storedTokensSchema = z.extend(tokensSchema, { granted_with: z.string() })

/** An open connection to one company's accounting system. */
export interface Connection {
  /** `updated_at` of the integration that it was opened from. */
  version: number
  adapter: AccountingAdapter
  itemId: string
  taxCodeId: string | null
  deleteMode: 'void' | 'delete'
}

/**
 * Opens the company's connection from its integration and the last stored tokens. Reuse it until the integration
 * is changed: it may hold rotated tokens that are not stored yet.
 *
 * @param keys the deployment's `CREDENTIALS_KEY`
 * @returns null when the credentials cannot be read; the company is then stopped
 */
export async function openConnection(
  context: CompanyContext,
  keys: string,
  integration: IntegrationRow,
  row: ConnectionRow | null,
): Promise<Connection | null> {
  const read = await readIntegration(keys, integration)
  if (typeof read === 'string') {
    await stopCompany(context, integration.updated_at, read)
    return null
  }
  const { credentials, tokenUrl } = read
  const { realm_id: realmId, client_id: clientId, client_secret: clientSecret, refresh_token } = credentials
  const { companyId } = context
  const baseUrl = integration.base_url
  const remoteAccount = `${baseUrl} ${realmId}`
  if (row?.remote_account !== remoteAccount) await switchRemoteAccount(context, remoteAccount, row?.remote_account)

  const adapter = new AccountingAdapter(
    { baseUrl, tokenUrl, realmId, clientId, clientSecret },
    await readTokens(keys, companyId, row?.tokens ?? null, refresh_token),
    async (tokens) => {
      const value = { granted_with: refresh_token, ...tokens }
      const encrypted = await encryptCredentials(keys, companyId, 'accounting_sync', value)
      for (let attempts = 1; ; attempts++) {
        try {
          return await saveTokens(context, encrypted)
        } catch (error) {
          if (attempts >= SAVE_ATTEMPTS) throw error
        }
      }
    },
  )
  const { item_id: itemId, tax_code_id: taxCodeId, delete_mode: deleteMode } = credentials
  return { version: integration.updated_at, adapter, itemId, taxCodeId, deleteMode }
}

/** The credentials and the token address, or why they cannot be read: a sentence without secrets. */
async function readIntegration(keys: string, row: IntegrationRow) {
  try {
    const decrypted = await decryptCredentials(keys, row.company_id, 'accounting_sync', row.credentials)
    const credentials = credentialsSchema.safeParse(decrypted)
    if (!credentials.success) return 'The stored credentials are not complete.'
    const { token_url: tokenUrl = null } = settingsSchema.parse(JSON.parse(row.settings))
    return { credentials: credentials.data, tokenUrl }
  } catch (error) {
    return error instanceof CredentialsError ? error.message : 'The settings of the integration cannot be read.'
  }
}

/** The stored tokens, or the first ones where there are none of this refresh token. */
async function readTokens(
  keys: string,
  companyId: number,
  encrypted: string | null,
  grantedWith: string,
): Promise<Tokens> {
  const first = { refresh_token: grantedWith, access_token: null, access_good_until: 0 }
  if (encrypted === null) return first
  try {
    const stored = storedTokensSchema.parse(await decryptCredentials(keys, companyId, 'accounting_sync', encrypted))
    const { granted_with, ...tokens } = stored
    return granted_with === grantedWith ? tokens : first
  } catch {
    // Encrypted with a key that is gone: at worst the company must connect anew.
    return first
  }
}
