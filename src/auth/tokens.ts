import { hash } from 'node:crypto'
import { and, eq, isNull, lt, or } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/d1'
import { askDatabase } from '../db/client.ts'
import { apiTokens, companies } from '../db/schema.ts'
import { isPermission, type Permission } from './permissions.ts'

/** How long an isolate may believe a token without asking: revocation holds everywhere within 30 s. */
const CACHE_MS = 25_000
const CACHE_ENTRIES = 10_000

/** Last use is written at most this often. */
const LAST_USED_EVERY_MS = 60_000

export interface Token {
  id: number
  /** SHA-256 of the token, lower-case hex. */
  hash: string
  companyId: number
  /** The company's place in the full-text tables. */
  companySlot: number
  suspended: boolean
  permissions: ReadonlySet<Permission>
  expiresAt: number | null
}

interface Entry {
  token: Token
  staleAt: number
  lastUsedWrittenAt: number
}

/** Per isolate. Only tokens that exist are kept: an unknown one may be made a second later. */
const cache = new Map<string, Entry>()

const encoder = new TextEncoder()

/** SHA-256 as lower-case hex. */
export function hashToken(token: string): string {
  // Of bytes it is faster than of text.
  return hash('sha256', encoder.encode(token))
}

/** The token, when this isolate has seen it within the last 25 s. */
export function cachedToken(hash: string, now: number): Token | null {
  const entry = cache.get(hash)
  return entry && now < entry.staleAt ? usable(entry.token, now) : null
}

/** Whether this isolate has met the token, be it that it must ask for it again. */
export function hasSeenToken(hash: string): boolean {
  return cache.has(hash)
}

/** Looks a token up at the primary. Null when there is none, or it was revoked or has expired. */
export async function loadToken(binding: D1Database, hash: string, now: number): Promise<Token | null> {
  const query = drizzle(binding)
    .select({
      id: apiTokens.id,
      companyId: apiTokens.companyId,
      companySlot: companies.slot,
      suspended: companies.suspended,
      permissions: apiTokens.permissions,
      expiresAt: apiTokens.expiresAt,
      lastUsedAt: apiTokens.lastUsedAt,
    })
    .from(apiTokens)
    .innerJoin(companies, eq(companies.id, apiTokens.companyId))
    .where(and(eq(apiTokens.tokenHash, hash), isNull(apiTokens.revokedAt)))
  const [row] = await askDatabase(async () => query, true)
  if (!row) {
    cache.delete(hash)
    return null
  }
  const { lastUsedAt, permissions, ...rest } = row
  const token: Token = { ...rest, hash, permissions: new Set(permissions.filter(isPermission)) }
  if (cache.size >= CACHE_ENTRIES) cache.clear()
  cache.set(hash, { token, staleAt: now + CACHE_MS, lastUsedWrittenAt: lastUsedAt ?? 0 })
  return usable(token, now)
}

/** Writes the last use, unless it was written within a minute. Call it after the answer. */
export async function touchToken(binding: D1Database, token: Token, now: number): Promise<void> {
  const entry = cache.get(token.hash)
  if (entry && now - entry.lastUsedWrittenAt < LAST_USED_EVERY_MS) return
  if (entry) entry.lastUsedWrittenAt = now
  const query = drizzle(binding)
    .update(apiTokens)
    .set({ lastUsedAt: now })
    .where(
      and(
        eq(apiTokens.id, token.id),
        or(isNull(apiTokens.lastUsedAt), lt(apiTokens.lastUsedAt, now - LAST_USED_EVERY_MS + 1)),
      ),
    )
  await askDatabase(async () => query, true)
}

function usable(token: Token, now: number): Token | null {
  return token.expiresAt !== null && token.expiresAt <= now ? null : token
}
