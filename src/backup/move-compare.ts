import type { CompanyContext } from '../db/client.ts'
import type { Row, Value } from './format.ts'
import { readLog } from './move-queries.ts'
import { CHANGES, MOVED, type MovedTable } from './move-tables.ts'
import { type Compared, readCompared, readEnds, readNewestChange } from './switch-queries.ts'

/** The databases have different rows, and not because somebody has just written them. */
export class DifferenceError extends Error {
  override readonly name = 'DifferenceError'
}

/** A company that is moved, in both databases. */
export interface Ends {
  from: CompanyContext
  to: CompanyContext
}

/** What is compared page by page while the company is written. */
export const COMPARED = [...MOVED, CHANGES]

/**
 * Compares a page of rows, value by value, apart from those that were written since they were copied.
 *
 * @returns the key behind which the next page begins; null at the end
 * @throws DifferenceError
 */
export async function comparePage(ends: Ends, moved: MovedTable, after: Value[] | null): Promise<Value[] | null> {
  // Further changes are copied in the end.
  const newest = moved === CHANGES ? await readNewestChange(ends.to) : null
  return compare(ends, moved, { after, newest }, 0)
}

/** Compares rows that were just copied, apart from those that were written again: then the log has a later entry. */
export async function compareKeys(ends: Ends, moved: MovedTable, keys: readonly Value[][], entry: number) {
  for (let after: Value[] | null = null, isFirst = true; isFirst || after; isFirst = false) {
    after = await compare(ends, moved, { after, keys }, entry)
  }
}

async function compare({ from, to }: Ends, moved: MovedTable, which: Compared, entry: number) {
  const { rows, next } = await readCompared(from, moved, which)
  const copied = await readCompared(to, moved, { ...which, until: next })
  const keyOf = (row: Row) => JSON.stringify(moved.key.map((name) => row[name]))
  const different = new Map(rows.map((row) => [keyOf(row), JSON.stringify(row)]))
  for (const row of copied.rows) {
    const key = keyOf(row)
    if (different.get(key) === JSON.stringify(row)) different.delete(key)
    else different.set(key, '')
  }
  for (let after: number | null = entry; after !== null && different.size > 0; ) {
    const log: Awaited<ReturnType<typeof readLog>> = await readLog(from, moved.table, after, Number.MAX_SAFE_INTEGER)
    for (const key of log.keys) different.delete(JSON.stringify(key))
    after = log.next
  }
  if (different.size > 0) throw new DifferenceError(`different rows in ${moved.table}`)
  return next
}

/** Compares the numbers of rows, and sums of what is not compared page by page. @throws DifferenceError */
export async function compareEnds({ from, to }: Ends, nowMs: number): Promise<void> {
  const [before, after] = await Promise.all([readEnds(from, nowMs), readEnds(to, nowMs)])
  const different = before.filter((row, index) => JSON.stringify(row) !== JSON.stringify(after[index]))
  if (different.length > 0)
    throw new DifferenceError(`different rows in ${different.map(({ name }) => name).join(', ')}`)
}
