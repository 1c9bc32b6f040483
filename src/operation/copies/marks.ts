import type { CompanyContext } from '../../kernel/db/context.ts'
import { BUDGET_MS, withDeadline } from '../../kernel/http/deadline.ts'
import { log } from '../../kernel/http/log.ts'
import { MARKS, type Marks } from './format.ts'
import { listMarks } from './restore-queries.ts'

/** The object with the marks of every company. */
const KEY = 'marks.json'

type KnownMarks = Record<number, Marks>

/** The highest marks that every company ever had, as of the last sweep. */
export async function readKnownMarks(bucket: R2Bucket): Promise<KnownMarks> {
  const read = async () => {
    const object = await bucket.get(KEY)
    return object ? await object.json<KnownMarks>() : {}
  }
  return withDeadline(read(), BUDGET_MS.storage)
}

/**
 * Keeps what every company has given out, outside of its database. Marks are never lowered: a database that has lower
 * ones was set back, which is logged until they are raised by `POST /admin/v1/recovery`.
 */
export async function saveMarks(context: CompanyContext, bucket: R2Bucket): Promise<void> {
  const [known, rows] = await Promise.all([readKnownMarks(bucket), listMarks(context)])
  const behind: number[] = []
  let isChanged = false
  for (const { id, ...marks } of rows) {
    const before = known[id]
    if (before && before.last_change > marks.last_change) behind.push(id)
    if (!before || MARKS.some((name) => before[name] < marks[name])) isChanged = true
    known[id] = Object.fromEntries(MARKS.map((name) => [name, Math.max(marks[name], before?.[name] ?? 0)])) as Marks
  }
  if (behind.length > 0) log('database_set_back', { companies: behind.length, company_id: behind[0] }, 'error')
  if (isChanged) await withDeadline(bucket.put(KEY, JSON.stringify(known)), BUDGET_MS.storage)
}
