import { hash } from 'node:crypto'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { databaseMessage } from '../../kernel/db/failures.ts'
import { findLastCopied, readEnds } from './guard-queries.ts'
import { copyPage, copyRows, isAmong, type Key, keyOf, readChanged, readStamps, type Sink } from './read-queries.ts'
import { type Line, MOVED, type TablePlan } from './tables.ts'
import { putLines, removeKeys, removeParts } from './write-queries.ts'

/** The databases differ, and not only by a concurrent write. */
export class DifferenceError extends Error {
  override readonly name = 'DifferenceError'
}

/** A company under move, in both databases. */
export interface Ends {
  from: CompanyContext
  to: CompanyContext
}

/** The last change of the feed that is copied, by table. */
export type Since = Record<string, number>

/** Whether the feed names all changed rows, which are never deleted. */
const isByFeed = (plan: TablePlan) => plan.version !== undefined && plan.stamp === undefined

/** Limits the tables read at once: each holds a page of both databases in memory. */
const SIDE_BY_SIDE = 4
const KEYS_AT_ONCE = 500
const ATTEMPTS = 5

export const startFeeds = (sequence: number): Since =>
  Object.fromEntries(MOVED.filter(isByFeed).map(({ name }) => [name, sequence]))

/** The table in the destination, whose ids may be its own. */
const atDestination = (plan: TablePlan): TablePlan => (plan.sourceId ? { ...plan, idColumn: plan.sourceId } : plan)

/** Copies one page of a table. @returns how many rows, and the key after which the next page begins; null at the end */
export async function copyTable({ from, to }: Ends, plan: TablePlan, after: Key | null) {
  let count = 0
  const sink: Sink = async (each, lines) => {
    await putLines(to, atDestination(each), lines)
    count += lines.length
  }
  const { next } = await copyPage(from, plan, after, sink)
  return { count, next }
}

/** The differences of one page: keys of rows to copy, and of rows that the source no longer has. */
interface Differences {
  copied: Key[]
  removed: Key[]
  next: Key | null
  /** The last change of the feed that was read. */
  sequence?: number | undefined
}

/**
 * Finds the changed rows of one page.
 *
 * @param since reads the feed after this change, if the table's changes are there; else all stamps are compared
 */
export async function findPage(ends: Ends, plan: TablePlan, after: Key | null, since?: number): Promise<Differences> {
  if (since !== undefined && isByFeed(plan)) {
    const { ids, last, next } = await readChanged(ends.from, plan, Number(after?.[0] ?? since), Number.MAX_SAFE_INTEGER)
    const copied = ids.map((id): Key => [id])
    return { copied, removed: [], next: next === null ? null : [next], sequence: last ?? since }
  }
  const page = await readStamps(ends.from, plan, { after })
  const { next } = page
  const left = new Map(page.keys.map((key, index) => [key, page.stamps[index]]))
  const known = new Set(page.keys)
  const removed: Key[] = []
  // The destination needs several pages if it has rows removed from the source since.
  for (let from = after, isFirst = true; isFirst || from; isFirst = false) {
    const copied = await readStamps(ends.to, atDestination(plan), { after: from, until: next })
    if (copied.text === page.text) return { copied: [], removed: [], next }
    for (const [index, key] of copied.keys.entries()) {
      if (!known.has(key)) removed.push(JSON.parse(key))
      else if (left.get(key) === copied.stamps[index]) left.delete(key)
    }
    from = copied.next
  }
  const copied = [...left.keys()].map((key): Key => JSON.parse(key))
  // A row that an update no longer sets is still there.
  return plan.isUpdate ? { copied: [...copied, ...removed], removed: [], next } : { copied, removed, next }
}

/** Copies rows with their parts. */
export async function copyKeys({ from, to }: Ends, plan: TablePlan, keys: readonly Key[]): Promise<void> {
  const { pageRows = KEYS_AT_ONCE } = plan
  for (let at = 0; at < keys.length; at += pageRows) {
    const page = keys.slice(at, at + pageRows)
    await removeParts(
      to,
      plan,
      page.map(([id = null]) => id),
    )
    await copyRows(from, ...amongAll(from, plan, page), (each, lines) => putLines(to, atDestination(each), lines))
  }
}

/** Selects rows by their keys. An update also reads rows that it no longer sets. */
function amongAll(context: CompanyContext, plan: TablePlan, keys: readonly Key[]) {
  const { where, ...all } = plan
  const which: TablePlan = plan.isUpdate ? all : plan
  return [which, isAmong(context, which, keys)] as const
}

export const removeFrom = ({ to }: Ends, plan: TablePlan, keys: readonly Key[]) =>
  removeKeys(to, atDestination(plan), keys)

/** Copies rows after the last copied one of an append-only table. @returns how many */
export async function copyTail(ends: Ends, plan: TablePlan): Promise<number> {
  let copied = 0
  for (let after: Key | null = [await findLastCopied(ends.to, plan)]; after; ) {
    const { count, next }: { count: number; next: Key | null } = await copyTable(ends, plan, after)
    copied += count
    after = next
  }
  return copied
}

/** Copies all changes of tables since they were copied. */
export async function catchUp(ends: Ends, since: Since, tables: readonly TablePlan[] = MOVED): Promise<void> {
  const found = new Map<TablePlan, { copied: Key[]; removed: Key[] }>()
  const followed = tables.filter(({ rows }) => rows !== 'appended')
  // Parallel calls hide the distance between the databases.
  for (let at = 0; at < followed.length; at += SIDE_BY_SIDE) {
    const group = followed.slice(at, at + SIDE_BY_SIDE)
    await Promise.all(group.map(async (plan) => found.set(plan, await findAll(ends, plan, since[plan.name]))))
  }
  for (const plan of tables) {
    if (plan.rows === 'appended') await copyTail(ends, plan)
    else await copyKeys(ends, plan, found.get(plan)?.copied ?? [])
  }
  for (const plan of tables.toReversed()) await removeFrom(ends, plan, found.get(plan)?.removed ?? [])
}

async function findAll(ends: Ends, plan: TablePlan, since: number | undefined) {
  const all = { copied: [] as Key[], removed: [] as Key[] }
  for (let after: Key | null = null, isFirst = true; isFirst || after; isFirst = false) {
    const page: Differences = await findPage(ends, plan, after, since)
    all.copied.push(...page.copied)
    all.removed.push(...page.removed)
    after = page.next
  }
  return all
}

export const isOfReference = (error: unknown) => databaseMessage(error).includes('FOREIGN KEY')

/**
 * Retries work on a table that fails because a row refers to one written after its own table was copied. Before the
 * retry, the changes of all tables before it are copied.
 */
export async function withParents<T>(ends: Ends, since: Since, table: number, work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work()
    } catch (error) {
      if (attempt === ATTEMPTS || !isOfReference(error)) throw error
      await catchUp(ends, since, MOVED.slice(0, table)).catch((failure: unknown) => {
        if (!isOfReference(failure)) throw failure
      })
    }
  }
}

/**
 * Compares a page of rows and their parts by value, apart from rows whose stamps differ: they are copied again. Without
 * stamps, the next comparison of stamps is one of all values.
 *
 * @returns the key after which the next page begins; null at the end
 * @throws DifferenceError
 */
export async function comparePage({ from, to }: Ends, plan: TablePlan, after: Key | null): Promise<Key | null> {
  if (!plan.stamp && !plan.version) return null
  const keys = new Map<string, Key>()
  const different = new Map<string, { name: string; key: Key }>()
  // The same row of both databases cancels itself out, in any order.
  const toggle = (line: Line) => {
    const key = line.of ? (keys.get(String(line.of[0])) ?? []) : keyOf(plan, line.row)
    if (!line.of) keys.set(String(line.row.id), key)
    const text = `${line.name} ${hash('sha256', JSON.stringify(line.row))}`
    if (!different.delete(text)) different.set(text, { name: line.name, key })
  }
  const sink: Sink = (_, lines) => lines.forEach(toggle)
  const { lines, next } = await copyPage(from, plan, after, sink)
  const copied = atDestination(plan)
  const read = lines.map(({ row }) => keyOf(plan, row))
  await copyRows(to, ...amongAll(to, copied, read), sink)
  if (different.size > 0) await checkStamps({ from, to }, plan, [...different.values()])
  return next
}

/** @throws DifferenceError if one of the rows has the same stamp in both databases */
async function checkStamps({ from, to }: Ends, plan: TablePlan, different: { name: string; key: Key }[]) {
  const keys = different.map(({ key }) => key)
  const of = async (context: CompanyContext, copied: TablePlan) => {
    const page = await readStamps(context, copied, { keys })
    return new Map(page.keys.map((key, index) => [JSON.stringify(JSON.parse(key)), page.stamps[index]]))
  }
  const [before, after] = await Promise.all([of(from, plan), of(to, atDestination(plan))])
  const wrong = different.find(({ key }) => {
    const stamp = before.get(JSON.stringify(key))
    return stamp !== undefined && stamp === after.get(JSON.stringify(key))
  })
  if (wrong) throw new DifferenceError(`different rows in ${wrong.name}`)
}

/** Compares row counts, and sums of the tables not compared page by page. @throws DifferenceError */
export async function compareEnds({ from, to }: Ends, nowMs: number): Promise<void> {
  const [before, after] = await Promise.all([readEnds(from, nowMs), readEnds(to, nowMs)])
  const different = before.filter((row, index) => JSON.stringify(row) !== JSON.stringify(after[index]))
  if (different.length > 0)
    throw new DifferenceError(`different rows in ${different.map(({ name }) => name).join(', ')}`)
}
