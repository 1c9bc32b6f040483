import * as z from 'zod/mini'
import { CredentialsError, decryptCredentials, encryptCredentials } from '../auth/credentials.ts'
import type { Database } from '../db/client.ts'
import { type AccountingAdapter, createAccountingAdapter } from './adapter.ts'
import { type ConnectionRow, connectBooks, type IntegrationRow, saveTokens, stopCompany } from './queries.ts'
import type { AccountingTokens } from './tokens.ts'

/** How often rotated tokens are tried to be stored: the ones before are void already. */
const SAVE_TRIES = 3

const filled = z.string().check(z.minLength(1))

const settings = z.object({ token_url: z.optional(z.string()) })

const credentials = z.object({
  realm_id: filled,
  client_id: filled,
  client_secret: filled,
  refresh_token: filled,
  item_id: z._default(filled, '1'),
  tax_code_id: z._default(z.nullable(filled), null),
  delete_mode: z._default(z.enum(['void', 'delete']), 'void'),
})

/** The tokens of now, as they are encrypted. */
const stored = z.object({
  /** The refresh token of the credentials they come from: with another one the company was connected anew. */
  granted_with: z.string(),
  refresh_token: z.string(),
  access_token: z.nullable(z.string()),
  access_good_until: z.number(),
})

/** An open way to one company's books. */
export interface Connection {
  /** The integration's row as it was opened from: with another one it must be opened anew. */
  version: string
  adapter: AccountingAdapter
  /** The item that lines are booked on. */
  itemId: string
  /** The tax code of taxes without one of their own. */
  taxCodeId: string | null
  deleteMode: 'void' | 'delete'
}

/** What of an integration decides about the connection. */
export function versionOf({ base_url: baseUrl, settings: words, credentials: sealed }: IntegrationRow): string {
  return JSON.stringify([baseUrl, words, sealed])
}

/**
 * Opens the company's connection from its integration and the tokens that were last given. Keep it for as long as
 * {@link versionOf} stays: it may hold rotated tokens that are not stored yet.
 *
 * @returns null when the credentials cannot be read; the company is then stopped
 */
export async function openConnection(
  db: Database,
  keys: string,
  integration: IntegrationRow,
  row: ConnectionRow | null,
): Promise<Connection | null> {
  const { company_id: companyId, base_url: baseUrl } = integration
  const read = await readCredentials(keys, integration)
  if (typeof read === 'string') {
    await stopCompany(db, companyId, integration.updated_at, read)
    return null
  }
  const { own, tokenUrl } = read
  const books = `${baseUrl} ${own.realm_id}`
  if (row?.remote_account !== books) await connectBooks(db, companyId, books, row?.remote_account)

  const adapter = createAccountingAdapter({
    settings: { baseUrl, tokenUrl, realmId: own.realm_id, clientId: own.client_id, clientSecret: own.client_secret },
    tokens: await readTokens(keys, companyId, row?.tokens ?? null, own.refresh_token),
    saveTokens: async (tokens) => {
      const value: z.input<typeof stored> = {
        granted_with: own.refresh_token,
        refresh_token: tokens.refreshToken,
        access_token: tokens.accessToken,
        access_good_until: tokens.accessGoodUntilMs,
      }
      const sealed = await encryptCredentials(keys, companyId, 'accounting_sync', value)
      await repeat(() => saveTokens(db, companyId, sealed))
    },
    nowMs: () => Date.now(),
  })
  const { item_id: itemId, tax_code_id: taxCodeId, delete_mode: deleteMode } = own
  return { version: versionOf(integration), adapter, itemId, taxCodeId, deleteMode }
}

/** The credentials and the token address, or why there are none: a sentence without secrets. */
async function readCredentials(keys: string, row: IntegrationRow) {
  try {
    const opened = await decryptCredentials(keys, row.company_id, 'accounting_sync', row.credentials)
    const own = credentials.safeParse(opened)
    if (!own.success) return 'The stored credentials are not complete.'
    const { token_url: tokenUrl = null } = settings.parse(JSON.parse(row.settings))
    return { own: own.data, tokenUrl }
  } catch (error) {
    if (error instanceof CredentialsError) return error.message
    return 'The settings of the integration cannot be read.'
  }
}

async function readTokens(
  keys: string,
  companyId: number,
  sealed: string | null,
  grantedWith: string,
): Promise<AccountingTokens> {
  const first = { refreshToken: grantedWith, accessToken: null, accessGoodUntilMs: 0 }
  if (sealed === null) return first
  try {
    const tokens = stored.parse(await decryptCredentials(keys, companyId, 'accounting_sync', sealed))
    if (tokens.granted_with !== grantedWith) return first
    return {
      refreshToken: tokens.refresh_token,
      accessToken: tokens.access_token,
      accessGoodUntilMs: tokens.access_good_until,
    }
  } catch {
    // Encrypted with a key that is gone: at worst the company must be connected anew.
    return first
  }
}

async function repeat(work: () => Promise<void>): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      return await work()
    } catch (error) {
      if (tries >= SAVE_TRIES) throw error
    }
  }
}
