import type { Content } from './input.ts'

/** What the content of a mailbox's thread hashes to. */
export interface Version {
  account_email: string
  content_hash: string
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
  for (const { account_email, content_hash } of versions) hashes.set(account_email, content_hash)
  if (known.size >= THREADS_KEPT) known.clear()
  known.set(key, hashes)
}

/** Content, and what it hashes to. */
export interface Hashed {
  content: Content
  hash: string
}

const BYTES_KEPT = 8_000_000

/** What an entry takes beside its bodies, about. */
const ENTRY_BYTES = 2_000

/** Content that came again unchanged, the one that came last behind all others. */
const kept = new Map<string, Hashed>()
let keptBytes = 0

/** What was kept for a thread: it will probably come again, and need not be read through again and hashed. */
export function keptContent(companyId: number, legacyThreadId: string): Hashed | undefined {
  return kept.get(keyOf(companyId, legacyThreadId))
}

export function keepContent(companyId: number, legacyThreadId: string, hashed: Hashed): void {
  const key = keyOf(companyId, legacyThreadId)
  drop(key)
  kept.set(key, hashed)
  keptBytes += heldBytes(hashed.content)
  for (const oldest of kept.keys()) {
    if (keptBytes <= BYTES_KEPT) break
    drop(oldest)
  }
}

function drop(key: string): void {
  const hashed = kept.get(key)
  if (!hashed) return
  kept.delete(key)
  keptBytes -= heldBytes(hashed.content)
}

/** Each array keeps the whole body in memory that it is a part of. */
function heldBytes(content: Content): number {
  const bodies = new Set(Object.values(content).map(({ text }) => text.buffer))
  return Array.from(bodies).reduce((bytes, body) => bytes + body.byteLength, ENTRY_BYTES)
}

function keyOf(companyId: number, legacyThreadId: string): string {
  return `${companyId}/${legacyThreadId}`
}
