/** What the content of a mailbox's thread hashes to. */
export interface Version {
  accountEmail: string
  contentHash: string
}

const THREADS_KEPT = 10_000

/**
 * What this isolate last saw stored, by company and legacy id, then by mailbox. Only a hint: whoever acts on it says so
 * to the database, which then does nothing if the hint is out of date.
 */
const known = new Map<string, Map<string, string>>()

export function knowsThread(companyId: number, legacyThreadId: string): boolean {
  return known.has(keyOf(companyId, legacyThreadId))
}

export function knownHash(companyId: number, legacyThreadId: string, accountEmail: string): string | undefined {
  return known.get(keyOf(companyId, legacyThreadId))?.get(accountEmail)
}

export function remember(companyId: number, legacyThreadId: string, versions: readonly Version[]): void {
  const key = keyOf(companyId, legacyThreadId)
  const hashes = known.get(key) ?? new Map<string, string>()
  for (const { accountEmail, contentHash } of versions) hashes.set(accountEmail, contentHash)
  if (known.size >= THREADS_KEPT) known.clear()
  known.set(key, hashes)
}

function keyOf(companyId: number, legacyThreadId: string): string {
  return `${companyId}/${legacyThreadId}`
}
