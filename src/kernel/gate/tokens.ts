import { hash } from 'node:crypto'
import { eq, sql } from 'drizzle-orm'
import { type DatabaseUse, openDatabase, orm } from '../db/client.ts'
import { placementColumns } from '../db/placement.ts'
import { appliedMigrations, lacksUnverifiedSchema, readApplied } from '../db/refusals.ts'
import { apiTokens, companies } from '../db/schema.ts'
import { BUDGET_MS, LruCache, log, nameOf, withDeadline } from '../http/isolate.ts'
import { isPermission, type Permission } from './permissions.ts'

/** A token may be used this long after its look-up: its revocation takes effect everywhere within this time. */
export const TOKEN_MS = 30_000
/** The last use is written at most this often. */
export const LAST_USED_EVERY_MS = 60_000

/** SHA-256 as lower-case hex. */
export function hashToken(token: string): string {
  return hash('sha256', token)
}

export type Found = Awaited<ReturnType<typeof findToken>>
export type Token = NonNullable<Found['token']>

/**
 * Looks a token up in the primary of the directory database, whose schema the caller compares with the code: `applied` are
 * its migrations. The `token` is null for a revoked one, undefined for an unknown one.
 */
export async function findToken(binding: D1Database, hash: string, use?: DatabaseUse) {
  const query = orm
    .select({
      appliedMigrations,
      id: apiTokens.id,
      name: apiTokens.name,
      companyId: apiTokens.company_id,
      /** The binding of the company's database, and the company's slot in the full-text tables there. */
      database: placementColumns.database,
      companySlot: placementColumns.slot,
      suspended: companies.suspended,
      /** Whether the company has enabled webhook endpoints, or may have: those of another database are not looked up. */
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
    .catch((error: unknown) => (lacksUnverifiedSchema(error) ? ([[]] as const) : Promise.reject(error)))
  if (!row) return { token: undefined, lastUsedAt: 0, applied: await readApplied(binding) }
  const { appliedMigrations: applied, lastUsedAt, revokedAt, permissions, ...rest } = row
  const token = { ...rest, permissions: new Set(permissions.filter(isPermission)) as ReadonlySet<Permission> }
  return { token: revokedAt === null ? token : null, lastUsedAt: lastUsedAt ?? 0, applied }
}

/** Writes the last use, unless it was written within a minute. */
export async function touchToken(binding: D1Database, { id }: Token, now: number): Promise<void> {
  const isDue = sql`id = ${id} AND (last_used_at IS NULL OR last_used_at <= ${now - LAST_USED_EVERY_MS})`
  await openDatabase(binding).writeIdempotent([orm.update(apiTokens).set({ last_used_at: now }).where(isDue)])
}

/** A network is blocked this long after too many unknown tokens: the window of the `AUTH_FAILURES` binding. */
const BLOCK_MS = 60_000

/** A blocked network may have one token looked up in this time. */
const LOOKUP_INTERVAL_MS = 1_000

/** When the next token of a blocked network may be looked up. */
const blocks = new LruCache<string, { nextAt: number }>({ maxWeight: 10_000, ttlMs: BLOCK_MS })

/** Hashes of tokens that were refused without a look-up. */
const refused = new LruCache<string, true>({ maxWeight: 10_000, ttlMs: BLOCK_MS })

/** @returns how many milliseconds later a token may be sent again */
export function blockNetwork(network: string, now: number): number {
  blocks.set(network, blocks.get(network, now) ?? { nextAt: now }, now)
  return LOOKUP_INTERVAL_MS
}

/**
 * The milliseconds until a token that this isolate does not know may be looked up; 0 uses up its network's turn. A blocked
 * network's token is looked up when it is retried, which a caller who guesses has no reason to do.
 */
export function delayLookup(network: string, tokenHash: string, now: number): number {
  const block = blocks.get(network, now)
  if (!block) return 0
  if (!refused.get(tokenHash, now)) {
    refused.set(tokenHash, true, now)
    return blockNetwork(network, now)
  }
  const delay = block.nextAt - now
  if (delay > 0) return delay
  block.nextAt = now + LOOKUP_INTERVAL_MS
  refused.delete(tokenHash)
  return 0
}

/** Counts one of a caller or network. @returns whether it is within the limit, also where the limiter itself fails */
export async function isWithinLimit(limiter: RateLimit, key: string, requestId: string, failure: string) {
  const count = async () => (await limiter.limit({ key })).success
  return withDeadline(count(), BUDGET_MS.limiter).catch((error: unknown) => {
    log(failure, { request_id: requestId, reason: nameOf(error) })
    return true
  })
}
