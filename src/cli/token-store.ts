import { randomBytes } from 'node:crypto'
import { and, asc, eq, isNull, lt, sql } from 'drizzle-orm'
import { hashToken } from '../auth/tokens.ts'
import { apiTokens, companies } from '../db/schema.ts'
import { isoTime } from '../http/contract.ts'
import { CommandError } from './command.ts'
import type { CommandDatabase } from './database.ts'

const TOKEN_BYTES = 32

export interface NewToken {
  companyId: number
  name: string
  permissions: string[]
  /** Milliseconds since the epoch; null: never. */
  expiresAt: number | null
}

/**
 * Makes a token; only its SHA-256 is stored.
 *
 * @returns the token, 64 lower-case hex characters
 * @throws CommandError when there is no such company
 */
export async function createToken(database: CommandDatabase, wanted: NewToken, now: number): Promise<string> {
  const { orm } = database
  const [company] = await orm.select({ id: companies.id }).from(companies).where(eq(companies.id, wanted.companyId))
  if (!company) throw new CommandError(`There is no company ${wanted.companyId}.`)
  const token = randomBytes(TOKEN_BYTES).toString('hex')
  await database.write([
    orm
      .insert(apiTokens)
      .values({
        company_id: wanted.companyId,
        name: wanted.name,
        permissions: wanted.permissions,
        expires_at: wanted.expiresAt,
        token_hash: hashToken(token),
        created_at: now,
      })
      .onConflictDoNothing(),
  ])
  return token
}

export type TokenRow = Awaited<ReturnType<typeof listTokens>>[number]

/** Everything about tokens but what they are, of one company or of all. */
export async function listTokens({ orm }: CommandDatabase, companyId: number | null) {
  const {
    id,
    name,
    permissions,
    created_at: createdAt,
    last_used_at: lastUsedAt,
    expires_at: expiresAt,
    revoked_at: revokedAt,
  } = apiTokens
  return orm
    .select({ id, companyId: apiTokens.company_id, name, permissions, createdAt, lastUsedAt, expiresAt, revokedAt })
    .from(apiTokens)
    .where(companyId === null ? undefined : eq(apiTokens.company_id, companyId))
    .orderBy(asc(id))
}

/** @throws CommandError when there is no such token */
export async function revokeToken(database: CommandDatabase, id: number, now: number): Promise<string> {
  const { orm } = database
  const [token] = await orm
    .select({ name: apiTokens.name, revokedAt: apiTokens.revoked_at })
    .from(apiTokens)
    .where(eq(apiTokens.id, id))
  if (!token) throw new CommandError(`There is no token ${id}.`)
  if (token.revokedAt !== null) return `Token ${id} (${token.name}) was revoked at ${isoTime(token.revokedAt)} already.`
  await database.write([
    orm
      .update(apiTokens)
      .set({ revoked_at: now })
      .where(and(eq(apiTokens.id, id), isNull(apiTokens.revoked_at))),
  ])
  return `Revoked token ${id} (${token.name}).`
}

/** Removes tokens of this name that were made before a time. */
export async function removeTokens(database: CommandDatabase, name: string, madeBefore: number): Promise<void> {
  const isOld = and(eq(apiTokens.name, name), lt(apiTokens.created_at, madeBefore))
  await database.write([database.orm.delete(apiTokens).where(sql`${isOld}`)])
}
