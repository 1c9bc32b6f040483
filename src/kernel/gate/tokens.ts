import { hash } from 'node:crypto'
import { eq, sql } from 'drizzle-orm'
import { type DatabaseUse, openDatabase, orm, startUse } from '../db/client.ts'
import { appliedMigrations, isMissing, readApplied } from '../db/migrations.ts'
import { placementColumns } from '../db/placement.ts'
import { apiTokens, companies } from '../db/schema.ts'
import { isPermission, type Permission } from './permissions.ts'

/** A token may be used this long after its look-up: its revocation takes effect everywhere within this time. */
export const TOKEN_MS = 30_000
/** The last use is written at most this often. */
export const LAST_USED_EVERY_MS = 60_000

export interface Token {
  id: number
  name: string
  /** SHA-256 of the token, lower-case hex. */
  hash: string
  companyId: number
  /** The binding of the company's database, and the company's slot in the full-text tables there. */
  database: string
  companySlot: number
  suspended: boolean
  /** Whether the company has enabled webhook endpoints, or may have: those of another database are not looked up. */
  hasWebhooks: boolean
  permissions: ReadonlySet<Permission>
  createdAt: number
  expiresAt: number | null
}

export interface Found {
  /** Null for a revoked token, undefined for an unknown one. */
  token: Token | null | undefined
  lastUsedAt: number
  /** The migrations of the directory. */
  applied: string | null
}

const encoder = new TextEncoder()

/** SHA-256 as lower-case hex: of bytes, which is faster than of text. */
export function hashToken(token: string): string {
  return hash('sha256', encoder.encode(token))
}

/** Looks a token up in the primary of the directory database, whose schema the caller compares with the code. */
export async function findToken(binding: D1Database, hash: string, use?: DatabaseUse): Promise<Found> {
  const query = orm
    .select({
      appliedMigrations,
      id: apiTokens.id,
      name: apiTokens.name,
      companyId: apiTokens.company_id,
      database: placementColumns.database,
      companySlot: placementColumns.slot,
      suspended: companies.suspended,
      hasWebhooks: sql<boolean>`(${companies.database} IS NOT NULL OR EXISTS (SELECT 1 FROM webhook_endpoints
        WHERE company_id = ${companies.id} AND enabled = 1))`
        .mapWith(Boolean)
        .as('has_webhooks'),
      permissions: apiTokens.permissions,
      createdAt: apiTokens.created_at,
      expiresAt: apiTokens.expires_at,
      lastUsedAt: apiTokens.last_used_at,
      revokedAt: apiTokens.revoked_at,
    })
    .from(apiTokens)
    .innerJoin(companies, eq(companies.id, apiTokens.company_id))
    .where(eq(apiTokens.token_hash, hash))
  const [[row]] = await openDatabase(binding, { use })
    .read([query])
    .catch((error: unknown) => (isMissing(error) ? ([[]] as const) : Promise.reject(error)))
  if (!row) return { token: undefined, lastUsedAt: 0, applied: await readApplied(binding) }
  const { appliedMigrations: applied, lastUsedAt, revokedAt, permissions, ...rest } = row
  const token = { ...rest, hash, permissions: new Set(permissions.filter(isPermission)) }
  return { token: revokedAt === null ? token : null, lastUsedAt: lastUsedAt ?? 0, applied }
}

/** Writes the last use, unless it was written within a minute. Returns the database time in milliseconds. */
export async function touchToken(binding: D1Database, { id }: Token, now: number): Promise<number> {
  const isDue = sql`id = ${id} AND (last_used_at IS NULL OR last_used_at <= ${now - LAST_USED_EVERY_MS})`
  const use = startUse()
  await openDatabase(binding, { use }).writeIdempotent([orm.update(apiTokens).set({ last_used_at: now }).where(isDue)])
  return use.durationMs
}

/** The token, or null when it has expired or was revoked. */
export function usable(token: Token | null, now: number): Token | null {
  return token?.expiresAt != null && token.expiresAt <= now ? null : token
}
