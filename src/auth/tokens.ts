import { hash } from 'node:crypto'
import { eq, sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/d1'
import { type DatabaseUse, orm, runBatch, runQuery } from '../db/client.ts'
import { isMissing, newestApplied, outdated, requireSchema, verifySchema } from '../db/migrations.ts'
import { placementColumns } from '../db/placement.ts'
import { apiTokens, companies } from '../db/schema.ts'
import { LruCache } from '../http/cache.ts'
import { isPermission, type Permission } from './permissions.ts'

/** How long a token is served from the cache: revocation takes effect everywhere within 30 s. */
const CACHE_MS = 25_000
/** The last use is written at most this often. */
const LAST_USED_EVERY_MS = 60_000

export interface Token {
  id: number
  /** SHA-256 of the token, lower-case hex. */
  hash: string
  companyId: number
  /** The binding of the database that has the company's data, and its place in the full-text tables there. */
  database: string
  companySlot: number
  suspended: boolean
  /** Whether the company has enabled webhook endpoints, or may have: those of another database are not looked up. */
  hasWebhooks: boolean
  permissions: ReadonlySet<Permission>
  expiresAt: number | null
}

/** By hash, expired tokens too; null for a revoked one. Unknown ones are not cached: each may be created at any time. */
const cache = new LruCache<string, { token: Token | null; staleAt: number; touchedAt: number }>({ maxWeight: 10_000 })
const encoder = new TextEncoder()

/** SHA-256 as lower-case hex: of bytes, which is faster than of text. */
export function hashToken(token: string): string {
  return hash('sha256', encoder.encode(token))
}

/** The cached token, null when it has expired or was revoked, undefined when it must be looked up. */
export function cachedToken(hash: string, now: number): Token | null | undefined {
  const entry = cache.get(hash)
  return entry && now < entry.staleAt ? usable(entry.token, now) : undefined
}

/** Looks the token up again with its next request: its company has moved. */
export function forgetToken(hash: string): void {
  cache.delete(hash)
}

/** Whether the token was valid at its last look-up in this isolate, which may be out of date. */
export function wasValid(hash: string, now: number): boolean {
  const entry = cache.get(hash)
  return entry !== undefined && usable(entry.token, now) !== null
}

/**
 * Looks a token up in the primary database: null when it has expired or was revoked, undefined when unknown. The first
 * look-up of an isolate also verifies the schema.
 *
 * @throws ApiError 503 where the schema is older than the code
 */
export async function loadToken(
  binding: D1Database,
  hash: string,
  now: number,
  use: DatabaseUse,
): Promise<Token | null | undefined> {
  const query = orm
    .select({
      newestApplied,
      id: apiTokens.id,
      companyId: apiTokens.company_id,
      database: placementColumns.database,
      companySlot: placementColumns.slot,
      suspended: companies.suspended,
      hasWebhooks: sql<boolean>`(${companies.database} IS NOT NULL OR EXISTS (SELECT 1 FROM webhook_endpoints
        WHERE company_id = ${companies.id} AND enabled = 1))`
        .mapWith(Boolean)
        .as('has_webhooks'),
      permissions: apiTokens.permissions,
      expiresAt: apiTokens.expires_at,
      lastUsedAt: apiTokens.last_used_at,
      revokedAt: apiTokens.revoked_at,
    })
    .from(apiTokens)
    .innerJoin(companies, eq(companies.id, apiTokens.company_id))
    .where(eq(apiTokens.token_hash, hash))
  const { values } = await runQuery(() => runBatch(binding, [query], use), true).catch((error: unknown) => {
    throw isMissing(error) ? outdated(null) : error
  })
  const [[row]] = values
  if (!row) {
    cache.delete(hash)
    await requireSchema(binding)
    return
  }
  const { newestApplied: applied, lastUsedAt, revokedAt, permissions, ...rest } = row
  verifySchema(applied)
  const token = revokedAt === null ? { ...rest, hash, permissions: new Set(permissions.filter(isPermission)) } : null
  cache.set(hash, { token, staleAt: now + CACHE_MS, touchedAt: lastUsedAt ?? 0 })
  return usable(token, now)
}

/** Writes the last use, unless it was written within a minute. Returns the database time in milliseconds. */
export async function touchToken(binding: D1Database, token: Token, now: number): Promise<number> {
  const entry = cache.get(token.hash)
  if (entry && now - entry.touchedAt < LAST_USED_EVERY_MS) return 0
  if (entry) entry.touchedAt = now
  const isDue = sql`id = ${token.id} AND (last_used_at IS NULL OR last_used_at <= ${now - LAST_USED_EVERY_MS})`
  const query = drizzle(binding).update(apiTokens).set({ last_used_at: now }).where(isDue)
  return (await runQuery(async () => query, true)).meta.duration
}

function usable(token: Token | null, now: number): Token | null {
  return token?.expiresAt != null && token.expiresAt <= now ? null : token
}
