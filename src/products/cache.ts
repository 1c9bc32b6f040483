import * as z from 'zod/mini'
import { BUDGET_MS, withDeadline } from '../http/deadline.ts'

/** Part of every key: raise it when the stored form changes. */
const FORM = 1

/** A supplier's answer as it is kept. Times are milliseconds since the epoch. */
export interface Entry<Item> {
  items: Item[]
  fetchedAt: number
  /** `updated_at` of the integration that fetched it: what another account saw is never served. */
  account: number
}

/** For how long an answer is served as it is, and for how long at all. */
export interface Lifetime {
  freshMs: number
  keptMs: number
}

const metadataSchema = z.object({ fetchedAt: z.number(), account: z.number() })

export function freshnessOf(fetchedAt: number, { freshMs, keptMs }: Lifetime, now: number): 'fresh' | 'stale' | 'gone' {
  const age = now - fetchedAt
  if (age < freshMs) return 'fresh'
  return age < keptMs ? 'stale' : 'gone'
}

/**
 * `products/FORM/COMPANY/SUPPLIER/SHA-256 of the lookup`: of a length that KV takes whatever was asked, and telling
 * nothing of it.
 */
export async function cacheKey(companyId: number, supplier: string, lookup: string): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(lookup))
  const hex = Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('')
  return `products/${FORM}/${companyId}/${supplier}/${hex}`
}

/** What is cached, or null: also when the cache fails or is slow. Never throws. */
export async function readEntry<Item>(kv: KVNamespace, key: string): Promise<Entry<Item> | null> {
  const known = recentEntry<Item>(key)
  if (known) return known
  try {
    const { value, metadata } = await withDeadline(kv.getWithMetadata<Item[]>(key, 'json'), BUDGET_MS.cache)
    const parsed = metadataSchema.safeParse(metadata)
    return Array.isArray(value) && parsed.success ? { items: value, ...parsed.data } : null
  } catch {
    return null
  }
}

/** Keeps an answer, here and in KV. Never throws. */
export async function writeEntry<Item>(
  kv: KVNamespace,
  key: string,
  { items, ...metadata }: Entry<Item>,
  lifetime: Lifetime,
): Promise<void> {
  const text = JSON.stringify(items)
  remember(key, { items, ...metadata }, text.length)
  const put = kv.put(key, text, { metadata, expirationTtl: Math.ceil(lifetime.keptMs / 1000) })
  await withDeadline(put, BUDGET_MS.afterwards).catch(() => undefined)
}

/**
 * What this isolate wrote last. KV remembers for a minute that it had nothing under a key, and shows a new value no
 * sooner elsewhere: without this the same search would call the supplier again and again in that minute.
 */
const recent = new Map<string, { entry: Entry<unknown>; sizeCharacters: number }>()
const RECENT_MS = 60_000
const RECENT_CHARACTERS = 4_000_000
let recentCharacters = 0

/** What this isolate wrote within the last minute, or null. */
export function recentEntry<Item>(key: string): Entry<Item> | null {
  const kept = recent.get(key)
  // Keys tell the lookup, and a lookup has one type of items.
  return kept && Date.now() - kept.entry.fetchedAt < RECENT_MS ? (kept.entry as Entry<Item>) : null
}

function remember(key: string, entry: Entry<unknown>, sizeCharacters: number): void {
  forget(key)
  if (sizeCharacters > RECENT_CHARACTERS) return
  recent.set(key, { entry, sizeCharacters })
  recentCharacters += sizeCharacters
  for (const oldest of recent.keys()) {
    if (recentCharacters <= RECENT_CHARACTERS) break
    forget(oldest)
  }
}

function forget(key: string): void {
  recentCharacters -= recent.get(key)?.sizeCharacters ?? 0
  recent.delete(key)
}
