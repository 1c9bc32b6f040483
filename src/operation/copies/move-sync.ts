import type { CompanyContext } from '../../kernel/db/context.ts'
import { databaseMessage } from '../../kernel/db/failures.ts'
import type { Row, Value } from './format.ts'
import { clearLog, findKeys, isAmong, measureLog, putRows, readLog, removeKeys } from './move-queries.ts'
import { CHANGES, MOVED, type MovedTable } from './move-tables.ts'
import { type Compared, readCompared, readEnds, readNewestChange } from './ownership-queries.ts'
import { readPages } from './queries.ts'

/** The databases differ, and not only by a concurrent write. */
export class DifferenceError extends Error {
  override readonly name = 'DifferenceError'
}

/** A company under move, in both databases. */
export interface Ends {
  from: CompanyContext
  to: CompanyContext
}

/** Tables compared page by page while the company is written. */
export const COMPARED = [...MOVED, CHANGES]

/**
 * Compares a page of rows by value, except rows written since they were copied.
 *
 * @returns the key after which the next page begins; null at the end
 * @throws DifferenceError
 */
export async function comparePage(ends: Ends, moved: MovedTable, after: Value[] | null): Promise<Value[] | null> {
  // Newer changes are copied at the end.
  const newest = moved === CHANGES ? await readNewestChange(ends.to) : null
  return compare(ends, moved, { after, newest }, 0)
}

/** Compares rows just copied, except those with a later log entry, which were written again. */
async function compareKeys(ends: Ends, moved: MovedTable, keys: readonly Value[][], entry: number) {
  for (let after: Value[] | null = null, isFirst = true; isFirst || after; isFirst = false) {
    after = await compare(ends, moved, { after, keys }, entry)
  }
}

async function compare({ from, to }: Ends, moved: MovedTable, which: Compared, entry: number) {
  const { rows, next } = await readCompared(from, moved, which)
  const keyOf = (row: Row) => JSON.stringify(moved.key.map((name) => row[name]))
  const different = new Map(rows.map((row) => [keyOf(row), JSON.stringify(row)]))
  // The destination needs several pages if it has rows removed from the source since.
  for (let after = which.after, isFirst = true; isFirst || after; isFirst = false) {
    const copied = await readCompared(to, moved, { ...which, after, until: next })
    for (const row of copied.rows) {
      const key = keyOf(row)
      if (different.get(key) === JSON.stringify(row)) different.delete(key)
      else different.set(key, '')
    }
    after = copied.next
  }
  for (let after: number | null = entry; after !== null && different.size > 0; ) {
    const log: Awaited<ReturnType<typeof readLog>> = await readLog(from, moved.table, after, Number.MAX_SAFE_INTEGER)
    for (const key of log.keys) different.delete(JSON.stringify(key))
    after = log.next
  }
  if (different.size > 0) throw new DifferenceError(`different rows in ${moved.table}`)
  return next
}

/** Compares row counts, and sums of the tables not compared page by page. @throws DifferenceError */
export async function compareEnds({ from, to }: Ends, nowMs: number): Promise<void> {
  const [before, after] = await Promise.all([readEnds(from, nowMs), readEnds(to, nowMs)])
  const different = before.filter((row, index) => JSON.stringify(row) !== JSON.stringify(after[index]))
  if (different.length > 0)
    throw new DifferenceError(`different rows in ${different.map(({ name }) => name).join(', ')}`)
}

/** Limits the tables compared at once: each holds a page of both databases in memory. */
const SIDE_BY_SIDE = 4
const ATTEMPTS = 5

/**
 * Retries work that fails because a row refers to one written after its table was copied. Before the retry, the writes
 * to all tables up to that one are copied.
 */
export async function withParents<T>(move: Ends, table: number, work: () => Promise<T>): Promise<T> {
  const isOfParent = (error: unknown) => databaseMessage(error).includes('FOREIGN KEY')
  for (let attempt = 1; ; attempt++) {
    try {
      return await work()
    } catch (error) {
      if (attempt === ATTEMPTS || !isOfParent(error)) throw error
      await catchUp(move, MOVED.slice(0, table)).catch((failure: unknown) => {
        if (!isOfParent(failure)) throw failure
      })
    }
  }
}

/**
 * Copies rows again that were written since they were copied, and compares them.
 *
 * @param limit of the entries of the log, the oldest first
 */
export async function catchUp({ from, to }: Ends, tables = MOVED, limit?: number): Promise<void> {
  const { newest } = await measureLog(from, limit)
  if (newest === 0) return
  const logs = await Promise.all(tables.map(async (moved) => ({ moved, pages: await readKeys(from, moved, newest) })))
  const written = logs.filter(({ pages }) => pages.length > 0)
  for (const { moved, pages } of written) {
    for (const keys of pages) await copyKeys(from, to, moved, keys)
  }
  for (const { moved, pages } of written.toReversed()) {
    for (const keys of pages) {
      const present = new Set((await findKeys(from, moved, keys)).map((key) => JSON.stringify(key)))
      await removeKeys(
        to,
        moved,
        keys.filter((key) => !present.has(JSON.stringify(key))),
      )
    }
  }
  // Any order is correct here, and parallel calls hide the distance to the destination.
  for (let at = 0; at < written.length; at += SIDE_BY_SIDE) {
    const group = written.slice(at, at + SIDE_BY_SIDE)
    await Promise.all(
      group.map(async ({ moved, pages }) => {
        for (const keys of pages) await compareKeys({ from, to }, moved, keys, newest)
      }),
    )
  }
  await clearLog(from, tables, newest)
}

/** Reads the keys of a table's written rows, in pages. */
async function readKeys(from: CompanyContext, { table }: MovedTable, newest: number): Promise<Value[][][]> {
  const pages: Value[][][] = []
  for (let after: number | null = 0; after !== null; ) {
    const { keys, next }: { keys: Value[][]; next: number | null } = await readLog(from, table, after, newest)
    if (keys.length > 0) pages.push(keys)
    after = next
  }
  return pages
}

async function copyKeys(from: CompanyContext, to: CompanyContext, moved: MovedTable, keys: readonly Value[][]) {
  const { table, key, order = key } = moved
  const source = { plan: { table, key: order }, where: isAmong(from, moved, keys) }
  for await (const rows of readPages(from, source)) await putRows(to, moved, rows)
}
