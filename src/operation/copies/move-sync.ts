import { hash } from 'node:crypto'
import { databaseMessage } from '../../kernel/db/client.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { findLastCopied, readEnds } from './guard-queries.ts'
import { isAmong, keyOf, PAGE_ROWS, pagesOf, readChanged, readPage, readStamps } from './read-queries.ts'
import { type Key, MOVED, type Row, type TablePlan } from './tables.ts'
import { atDestination, putPage, removeKeys } from './write-queries.ts'

/** The databases differ, and not only by a concurrent write. */
export class DifferenceError extends Error {
  override readonly name = 'DifferenceError'
}

type Ends = Record<'from' | 'to', CompanyContext>

/** Limits the tables read at once: each holds a page of both databases in memory. */
const SIDE_BY_SIDE = 4
const ATTEMPTS = 5

/** Reads a page to be written with its children as one transaction, for which the destination's other companies wait. */
const readShortPage: typeof readPage = (from, plan, ...rest) =>
  readPage(from, plan.children.length > 0 ? { ...plan, pageRows: 40 } : plan, ...rest)

/** Copies one page of a table. @returns how many rows, and the key after which the next page begins; null at the end */
export async function copyPage({ from, to }: Ends, plan: TablePlan, after: Key | null) {
  const { tables, next } = await readShortPage(from, plan, after)
  await putPage(to, tables)
  return { count: tables.reduce((sum, { rows }) => sum + rows.length, 0), next }
}

/**
 * Finds the changed rows of one page: the keys of rows to copy, and of rows that the source no longer has.
 *
 * @param since reads the feed after this change, if the table's changes are there; else all stamps are compared
 */
export async function findPage(ends: Ends, plan: TablePlan, after: Key | null, since: number | null) {
  if (since !== null && plan.isInFeed) return readChanged(ends.from, plan, after ?? [since])
  // A log only has new rows, behind the last copied one.
  const first = plan.isAppended ? [await findLastCopied(ends.to, plan)] : null
  return compareStamps(ends, plan, after ?? first)
}

/** Finds rows of one page with different stamps, and those with the same. @param until the last key, if not the table's */
async function compareStamps({ from, to }: Ends, plan: TablePlan, after: Key | null, until: Key | null = null) {
  const { stamps, next } = await readStamps(from, plan, after, until)
  const different = new Set(stamps.keys())
  const removed: Key[] = []
  // The destination needs several pages if it has rows removed from the source since.
  let first = after
  do {
    const copy = await readStamps(to, atDestination(plan), first, next ?? until)
    for (const [key, stamp] of copy.stamps) {
      if (!stamps.has(key)) removed.push(JSON.parse(key))
      else if (stamps.get(key) === stamp) different.delete(key)
    }
    first = JSON.stringify(copy.next) === JSON.stringify(next) ? null : copy.next
  } while (first)
  const copied = [...different].map((key): Key => JSON.parse(key))
  const same = [...stamps.keys()].filter((key) => !different.has(key))
  // A row that an update no longer sets is still there.
  return plan.columns ? { copied: [...copied, ...removed], removed: [], same, next } : { copied, removed, same, next }
}

export async function copyKeys({ from, to }: Ends, plan: TablePlan, keys: readonly Key[]): Promise<void> {
  for (let at = 0; at < keys.length; at += PAGE_ROWS) {
    const isMeant = isAmong(from, plan, keys.slice(at, at + PAGE_ROWS))
    const pages = pagesOf((after) => readShortPage(from, plan, after, isMeant))
    for await (const { tables } of pages) await putPage(to, tables)
  }
}

/** Copies all changes of tables since they were copied. */
export async function catchUp(ends: Ends, since: number, tables: readonly TablePlan[] = MOVED): Promise<void> {
  const found: Awaited<ReturnType<typeof findAll>>[] = []
  // Parallel calls hide the distance between the databases.
  for (let at = 0; at < tables.length; at += SIDE_BY_SIDE) {
    const group = tables.slice(at, at + SIDE_BY_SIDE)
    found.push(...(await Promise.all(group.map((plan) => findAll(ends, plan, since)))))
  }
  for (const { plan, copied } of found) await copyKeys(ends, plan, copied)
  for (const { plan, removed } of found.toReversed()) await removeKeys(ends.to, plan, removed)
}

async function findAll(ends: Ends, plan: TablePlan, since: number) {
  const read = pagesOf((after) => findPage(ends, plan, after, since))
  // The unchanged rows of each page are not kept: there may be many.
  const pages = await Array.fromAsync(read, ({ copied, removed }) => ({ copied, removed }))
  return { plan, copied: pages.flatMap(({ copied }) => copied), removed: pages.flatMap(({ removed }) => removed) }
}

const isOfReference = (error: unknown) => databaseMessage(error).includes('FOREIGN KEY')

/** For `catch`: ignores a failure that is due to references between rows. */
export function ignoreReference(error: unknown): void {
  if (!isOfReference(error)) throw error
}

/**
 * Retries work on a table that fails because a row refers to one written after its own table was copied. Before the
 * retry, the changes of all tables before it are copied.
 */
export async function withParents<T>(ends: Ends, since: number, table: number, work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work()
    } catch (error) {
      if (attempt === ATTEMPTS || !isOfReference(error)) throw error
      await catchUp(ends, since, MOVED.slice(0, table)).catch(ignoreReference)
    }
  }
}

/**
 * Compares a page of rows and their children by value, apart from rows whose stamps differ: they are copied again. Without
 * stamps, the next comparison of stamps is one of all values.
 *
 * @returns the key after which the next page begins; null at the end
 * @throws DifferenceError if a different row has the same stamp in both databases
 */
export async function comparePage(ends: Ends, plan: TablePlan, after: Key | null): Promise<Key | null> {
  if (!plan.stamp) return null
  const { from, to } = ends
  const { rows, tables, next } = await readPage(from, plan, after)
  const copy = atDestination(plan)
  const keys = rows.map((row) => keyOf(plan, row))
  const copied = await Array.fromAsync(pagesOf((after) => readPage(to, copy, after, isAmong(to, copy, keys))))
  const different = new Map<string, { name: string; key: Key }>()
  const orderOf = new Map<unknown, Row[string]>()
  for (const each of [...tables, ...copied.flatMap((page) => page.tables)]) {
    const { name, owner } = each.plan
    for (const row of each.rows) {
      // Only orders have children in a move. An invoice comes before its lines and payments.
      if (name === 'invoices') orderOf.set(row.id, row.project_id ?? null)
      const order = owner === 'invoice_id' ? orderOf.get(row.invoice_id) : row.project_id
      const key = owner ? [order ?? null] : keyOf(plan, row)
      const text = `${name} ${hash('sha256', JSON.stringify(row))}`
      // The same row of both databases cancels itself out, in any order.
      if (!different.delete(text)) different.set(text, { name, key })
    }
  }
  if (different.size === 0) return next
  const { same } = await compareStamps(ends, plan, after, next)
  const unchanged = new Set(same.map((key) => JSON.stringify(JSON.parse(key))))
  const wrong = [...different.values()].find(({ key }) => unchanged.has(JSON.stringify(key)))
  if (wrong) throw new DifferenceError(`different rows in ${wrong.name}`)
  return next
}

/** Compares row counts, and sums of the tables not compared page by page. @throws DifferenceError */
export async function compareEnds({ from, to }: Ends, nowMs: number): Promise<void> {
  const [before, after] = await Promise.all([readEnds(from, nowMs), readEnds(to, nowMs)])
  const different = before.filter((row, index) => JSON.stringify(row) !== JSON.stringify(after[index]))
  const names = different.map(({ name }) => name).join(', ')
  if (names) throw new DifferenceError(`different rows in ${names}`)
}
