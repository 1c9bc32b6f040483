import type { CompanyContext } from '../../kernel/db/context.ts'
import { BUDGET_MS, withDeadline } from '../../kernel/http/deadline.ts'
import { log } from '../../kernel/http/log.ts'
import { SEQUENCES, type Sequences } from './format.ts'
import { listSequences } from './restore-queries.ts'

const KEY = 'sequences.json'

type KnownSequences = Record<number, Sequences>

/** Reads the highest assigned ids of every company, as of the last sweep. */
export async function readKnownSequences(bucket: R2Bucket): Promise<KnownSequences> {
  const read = async () => {
    const object = await bucket.get(KEY)
    return object ? await object.json<KnownSequences>() : {}
  }
  return withDeadline(read(), BUDGET_MS.storage)
}

/**
 * Keeps the highest assigned ids outside of the database and never lowers them. A database with lower ids was reset:
 * this is logged until `POST /admin/v1/recovery` raises them.
 */
export async function saveSequences(context: CompanyContext, bucket: R2Bucket): Promise<void> {
  const [known, rows] = await Promise.all([readKnownSequences(bucket), listSequences(context)])
  const behind: number[] = []
  let isChanged = false
  for (const { id, ...sequences } of rows) {
    const before = known[id]
    if (before && before.last_change > sequences.last_change) behind.push(id)
    if (!before || SEQUENCES.some((name) => before[name] < sequences[name])) isChanged = true
    known[id] = Object.fromEntries(
      SEQUENCES.map((name) => [name, Math.max(sequences[name], before?.[name] ?? 0)]),
    ) as Sequences
  }
  if (behind.length > 0) log('database_set_back', { companies: behind.length, company_id: behind[0] }, 'error')
  if (isChanged) await withDeadline(bucket.put(KEY, JSON.stringify(known)), BUDGET_MS.storage)
}
