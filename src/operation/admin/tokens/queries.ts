import { getTableColumns, type SQL, sql } from 'drizzle-orm'
import { LAST_INSTANT } from '../../../kernel/api/contract.ts'
import { adminEntry } from '../../../kernel/db/audit.ts'
import { orm, statement } from '../../../kernel/db/client.ts'
import { insertRow } from '../../../kernel/db/columns.ts'
import { apiTokens } from '../../../kernel/db/schema.ts'
import { found } from '../../../kernel/http/errors.ts'
import { BUDGET_MS, log, nameOf, withDeadline } from '../../../kernel/http/isolate.ts'
import type { AdminContext } from '../context.ts'
import { isListed, type ListQuery, type Page } from '../queries.ts'
import { ACTIVE_TOKENS_MAX } from './contract.ts'

export type TokenRow = Awaited<ReturnType<typeof listTokens>>[number]

type State = 'active' | 'expired' | 'revoked'
const stateAt = (now: number) =>
  sql<State>`iif(revoked_at IS NOT NULL, 'revoked', iif(expires_at <= ${now}, 'expired', 'active'))`
const columnsAt = (now: number) => ({ ...getTableColumns(apiTokens), state: stateAt(now).as('token_state') })

export async function listTokens(context: AdminContext, { query, after, limit }: Page<ListQuery>) {
  const isIn = query.state ? sql`${stateAt(context.now)} = ${query.state}` : sql`1`
  const isMeant = sql`${isListed(context, query)} AND id > ${after[0] ?? 0} AND ${isIn}`
  const [rows] = await context.directory.read([
    orm.select(columnsAt(context.now)).from(apiTokens).where(isMeant).orderBy(apiTokens.id).limit(limit),
  ])
  return rows
}

/** Finds a token, and whether it was rotated: then its expiry may be the end of the overlap. @throws ApiError 404 */
export async function findToken({ companyId, directory: db, now }: AdminContext, id: number) {
  const columns = { ...columnsAt(now), isRotated: isRotated(companyId, id).as('is_rotated') }
  const [[row]] = await db.read([orm.select(columns).from(apiTokens).where(isToken(companyId, id))])
  return found(row, 'Token')
}

const isToken = (companyId: number, id: number) => sql`company_id = ${companyId} AND id = ${id}`
const isRotated = (companyId: number, id: number) =>
  sql<boolean>`EXISTS (SELECT 1 FROM api_tokens AS later CROSS JOIN admin_log AS l INDEXED BY admin_log_at
    ON l.at = later.created_at WHERE later.company_id = ${companyId} AND later.id > ${id}
      AND l.company_id = ${companyId} AND l.action = 'tokens.rotate' AND l.entity_id = ${String(id)})`.mapWith(Boolean)
const isActive = (now: number) => sql`${stateAt(now)} = 'active'`
const hasRoom = ({ companyId, now }: AdminContext, others = sql`1`) =>
  sql`(SELECT count(*) FROM api_tokens
    WHERE company_id = ${companyId} AND ${isActive(now)} AND ${others}) < ${ACTIVE_TOKENS_MAX}`
const hashOf = (hash: string) => sql`(SELECT id FROM api_tokens WHERE token_hash = ${hash})`

/** A new token, of which the database stores only the SHA-256. */
type NewToken = Pick<TokenRow, 'token_hash' | 'name' | 'permissions' | 'expires_at'>
type Values = Record<keyof NewToken, SQL | string | number | null>

function insertToken({ companyId: company_id, caller, now }: AdminContext, token: Values, rest: SQL) {
  const made = { company_id, created_at: now, created_by: caller.isOperator ? null : caller.actor }
  return insertRow(apiTokens, { ...token, ...made }, rest).returning(columnsAt(now))
}

/** @returns the token; null if the company has {@link ACTIVE_TOKENS_MAX} */
export async function createToken(context: AdminContext, token: NewToken): Promise<TokenRow | null> {
  const values = { ...token, permissions: JSON.stringify(token.permissions) }
  const [[row]] = await context.directory.write([
    insertToken(context, values, sql`WHERE ${hasRoom(context)}`),
    adminEntry(context, 'tokens.create', hashOf(token.token_hash), sql`changes() > 0`),
  ])
  return row ?? null
}

/**
 * Creates a token that replaces another one, which expires at `endsAt` or earlier. While both are valid they count as
 * two.
 *
 * @param expiresAt by default it is valid for as long as the other one was, which must not have been replaced before
 * @returns both as they are now; null if the old one is no longer valid or the company has no room for both
 */
export async function replaceToken(
  context: AdminContext,
  id: number,
  token_hash: string,
  endsAt: number,
  expiresAt: number | null | undefined,
) {
  const { companyId, directory: db, now } = context
  const isMeant = sql`${isToken(companyId, id)} AND ${isActive(now)}`
  const isFirst = sql`NOT ${isRotated(companyId, id)}`
  const room = hasRoom(context, endsAt > now ? sql`1` : sql`id <> ${id}`)
  const sameLifetime = sql`min(${now} + expires_at - created_at, ${LAST_INSTANT})`
  const [expires_at, mayReplace] = expiresAt === undefined ? [sameLifetime, isFirst] : [expiresAt, sql`1`]
  const successor = { token_hash, name: sql`name`, permissions: sql`permissions`, expires_at }
  const end = orm.update(apiTokens).set({ expires_at: sql`min(coalesce(expires_at, ${endsAt}), ${endsAt})` })
  const [[row], , [old]] = await db.write([
    insertToken(context, successor, sql`FROM api_tokens WHERE ${isMeant} AND ${mayReplace} AND ${room}`),
    adminEntry(context, 'tokens.rotate', id, sql`changes() > 0`),
    end.where(sql`${isMeant} AND ${hashOf(token_hash)} IS NOT NULL`).returning(columnsAt(now)),
  ])
  return row && old ? { token: row, old } : null
}

/** @returns the token, revoked now or earlier @throws ApiError 404 */
export async function revokeToken(context: AdminContext, id: number): Promise<TokenRow> {
  const { companyId, directory: db, now } = context
  const isMeant = isToken(companyId, id)
  const [, , [row]] = await db.writeIdempotent([
    orm.update(apiTokens).set({ revoked_at: now }).where(sql`${isMeant} AND revoked_at IS NULL`),
    adminEntry(context, 'tokens.revoke', id, sql`changes() > 0`),
    orm.select(columnsAt(now)).from(apiTokens).where(isMeant),
  ])
  return found(row, 'Token')
}

/** Makes the objects of the company's tokens, the 50 used last, reload them before the response. */
export async function invalidateCompany(context: AdminContext): Promise<void> {
  await invalidateTokens(context, await findUsed(context))
}

/** Finds the hashes of the company's tokens that were used since a time, last used first. */
export async function findUsed({ companyId, directory: db }: AdminContext, sinceMs = 0, limit = ACTIVE_TOKENS_MAX) {
  const [rows] = await db.read([
    statement<{ hash: string }>(sql`SELECT token_hash AS hash FROM api_tokens
      WHERE company_id = ${companyId} AND last_used_at >= ${sinceMs} ORDER BY last_used_at DESC LIMIT ${limit}`),
  ])
  return rows.map(({ hash }) => hash)
}

/**
 * Makes the objects of changed tokens reload them. One that fails for 2 seconds reloads by itself within 30 seconds.
 *
 * @param hashes of tokens that were used: a first call would create the object near the operator
 */
export async function invalidateTokens({ env, requestId }: AdminContext, hashes: readonly string[]): Promise<void> {
  const forget = async (hash: string) => env.RATE_LIMITER.getByName(hash).forget()
  const calls = hashes.map((hash) => withDeadline(forget(hash), BUDGET_MS.limiter))
  const failed = (await Promise.allSettled(calls)).filter((each) => each.status === 'rejected')
  const reason = failed.map((each) => nameOf(each.reason)).at(-1)
  if (reason) log('tokens_not_forgotten', { request_id: requestId, tokens: failed.length, reason })
}
