import { PERMISSIONS } from '../auth/permissions.ts'
import { isoTime } from '../http/contract.ts'
import type { TokenRow } from './token-store.ts'

const HEADINGS = ['ID', 'COMPANY', 'NAME', 'STATE', 'CREATED', 'LAST USED', 'EXPIRES', 'PERMISSIONS']

/** A table for people; never a token nor its hash. */
export function formatTokens(tokens: TokenRow[], now: number): string {
  const time = (ms: number | null) => (ms === null ? '-' : `${isoTime(ms).slice(0, 16)}Z`)
  const rows = tokens.map((token) => [
    String(token.id),
    String(token.companyId),
    token.name,
    stateOf(token, now),
    time(token.createdAt),
    time(token.lastUsedAt),
    time(token.expiresAt),
    token.permissions.length === PERMISSIONS.length ? 'all' : token.permissions.join(','),
  ])
  const table = [HEADINGS, ...rows]
  const widths = HEADINGS.map((_, column) => Math.max(...table.map((row) => row[column]?.length ?? 0)))
  return table
    .map(
      (row) =>
        `${row
          .map((cell, column) => cell.padEnd(widths[column] ?? 0))
          .join('  ')
          .trimEnd()}\n`,
    )
    .join('')
}

function stateOf(token: TokenRow, now: number): string {
  if (token.revokedAt !== null) return 'revoked'
  return token.expiresAt !== null && token.expiresAt <= now ? 'expired' : 'active'
}
