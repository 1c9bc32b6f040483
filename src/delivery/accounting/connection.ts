import * as z from 'zod/mini'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { CredentialsError, decryptCredentials, encryptCredentials } from '../../kernel/gate/credentials.ts'
import { log } from '../../kernel/http/errors.ts'
import type { AddressPolicy } from '../../kernel/http/outbound.ts'
import { AccountingAdapter, type Tokens, tokensSchema } from './adapter.ts'
import { type ConnectionRow, type IntegrationRow, saveConnection, switchRemoteAccount } from './queries.ts'

/** Storing rotated tokens is retried, since the previous ones are already void. */
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

/** `granted_with` is the credentials' refresh token: a different one means that the company connected again. */
const storedTokensSchema = z.extend(tokensSchema, { granted_with: z.string() })

/** An open connection to one company's accounting system. */
export interface Connection extends Pick<z.infer<typeof credentialsSchema>, 'item_id' | 'tax_code_id' | 'delete_mode'> {
  /** `updated_at` of the integration when the connection was opened. */
  version: number
  adapter: AccountingAdapter
}

/**
 * Opens the company's connection from its integration and the last stored tokens. Reuse it until the integration
 * changes: it may hold unsaved tokens. Returns null and stops the company if `keys` (`CREDENTIALS_KEY`) cannot decrypt
 * the credentials.
 *
 * @param latest gets the database for rotated tokens: the company may move while the connection is open
 */
export async function openConnection(
  context: CompanyContext,
  latest: () => CompanyContext,
  { keys, addresses }: { keys: string; addresses: AddressPolicy },
  { base_url, updated_at: version, ...integration }: IntegrationRow,
  row: ConnectionRow | null,
): Promise<Connection | null> {
  const { companyId } = context
  const decrypt = (stored: string) => decryptCredentials(keys, companyId, 'accounting_sync', stored)

  let credentials: z.infer<typeof credentialsSchema>
  let settings: z.infer<typeof settingsSchema>
  try {
    const parsed = credentialsSchema.safeParse(await decrypt(integration.credentials))
    if (!parsed.success) throw new CredentialsError('The stored credentials are not complete.')
    credentials = parsed.data
    settings = settingsSchema.parse(JSON.parse(integration.settings))
  } catch (error) {
    const reason = error instanceof CredentialsError ? error.message : 'The settings of the integration cannot be read.'
    await saveConnection(context, { stopped_for: version, reason: `credentials_unreadable: ${reason}` })
    log('outbox', { state: 'company_stopped', cause: 'credentials_unreadable', company_id: companyId })
    return null
  }

  const remoteAccount = `${base_url} ${credentials.realm_id}`
  if (row?.remote_account !== remoteAccount) await switchRemoteAccount(context, remoteAccount, row?.remote_account)

  const { refresh_token: granted_with } = credentials
  // Tokens cannot be decrypted without their key: at worst the company must connect again.
  const decrypted = row?.tokens && (await decrypt(row.tokens).catch(() => null))
  const stored = storedTokensSchema.safeParse(decrypted).data
  const first = { refresh_token: granted_with, access_token: null, access_good_until: 0 }
  const tokens = stored?.granted_with === granted_with ? stored : first
  async function saveTokens(rotated: Tokens): Promise<void> {
    const encrypted = await encryptCredentials(keys, companyId, 'accounting_sync', { granted_with, ...rotated })
    for (let attempts = 1; ; attempts++) {
      try {
        return await saveConnection(latest(), { tokens: encrypted })
      } catch (error) {
        if (attempts >= SAVE_ATTEMPTS) throw error
      }
    }
  }
  const adapter = new AccountingAdapter({ base_url, ...settings, ...credentials, addresses }, tokens, saveTokens)
  const { item_id, tax_code_id, delete_mode } = credentials
  return { version, adapter, item_id, tax_code_id, delete_mode }
}
