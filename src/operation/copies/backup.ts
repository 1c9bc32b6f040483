import type { CompanyContext } from '../../kernel/db/context.ts'
import {
  copyPage,
  copyRows,
  countRows,
  findChangedSince,
  hasId,
  readChanged,
  readCompany,
  type Sink,
  type Version,
} from './read-queries.ts'
import {
  BackupError,
  isFullDue,
  listBackups,
  type Manifest,
  type Part,
  type PartWriter,
  readManifest,
  type Store,
  writeManifest,
} from './store.ts'
import { type Key, TABLES } from './tables.ts'

/** Rows that change while they are read are read up to this often. */
const MAX_READS = 5

/** The durable state of a backup under way. */
export interface BackupState {
  at: string
  kind: Manifest['kind']
  previous: string | null
  /** The changes behind `since` and up to `sequence` are in an increment. */
  since: number
  sequence: number
  /** The highest ids of appended rows in the previous backup and in this one. */
  appendedBefore: Record<string, number>
  appended: Record<string, number>
  /** The position in the reversed list of tables, and the key in that table. */
  table: number
  after: Key | null
  /** The number of written parts. */
  parts: number
}

export interface BackupContext extends CompanyContext, Store {
  /** The binding of the company's database. */
  database: string
}

/**
 * Begins a backup of a company; null if it does not exist. The backup is full after 7 days, after a migration, and if
 * the feed no longer reaches back to the previous one.
 */
export async function beginBackup(context: BackupContext, nowMs: number): Promise<BackupState | null> {
  const found = await readCompany(context)
  if (!found) return null
  const { schema, oldestChange } = found
  const sequence = Number(found.company.last_change)
  const backups = await listBackups(context)
  const last = backups.at(-1)
  // An increment on a damaged backup could not be restored: the next one is full.
  const nullWhenDamaged = (error: unknown) => {
    if (error instanceof BackupError) return null
    throw error
  }
  const isContinued = last && !isFullDue(backups, nowMs)
  const previous = isContinued ? await readManifest(context, last).catch(nullWhenDamaged) : null
  const isSame = previous?.schema === schema && previous.database === context.database
  const reachesBack =
    previous && previous.sequence <= sequence && (oldestChange ?? sequence + 1) <= previous.sequence + 1
  const base = isSame && reachesBack ? previous : null
  return {
    at: new Date(nowMs).toISOString(),
    kind: base ? 'increment' : 'full',
    previous: base?.at ?? null,
    since: base?.sequence ?? 0,
    sequence,
    appendedBefore: base?.appended ?? {},
    appended: { ...base?.appended },
    table: TABLES.length - 1,
    after: null,
    parts: 0,
  }
}

/**
 * Reads one page of a table for the next part. Rows that change meanwhile are read again: the last read counts. After an
 * interruption, the backup continues with the state as of the last part written, and writes later ones again.
 *
 * @returns the state of the backup; null when all tables are read
 */
export async function stepBackup(
  context: BackupContext,
  state: BackupState,
  writer: PartWriter,
): Promise<BackupState | null> {
  const plan = TABLES[state.table]
  if (!plan) return null
  let versions: Version[] = []
  const sink: Sink = async (each, lines) => {
    await writer.add(lines)
    if (each !== plan || plan.parts.length === 0) return
    versions.push(...lines.map(({ row }): Version => [row.id ?? null, Number(row[plan.version ?? ''])]))
  }
  const isIncrement = state.kind === 'increment'
  let { appended } = state
  let after: Key | null
  if (plan.rows === 'changed' && isIncrement) {
    const changed = await readChanged(context, plan, Number(state.after?.[0] ?? state.since), state.sequence)
    await copyRows(context, plan, hasId(context, plan, changed.ids), sink)
    after = changed.next === null ? null : [changed.next]
  } else {
    const first = plan.rows === 'appended' && isIncrement ? [state.appendedBefore[plan.name] ?? 0] : null
    const { lines, next } = await copyPage(context, plan, state.after ?? first, sink)
    after = next
    const last = lines.at(-1)
    if (plan.rows === 'appended' && last) appended = { ...appended, [plan.name]: Number(last.row.id) }
  }
  for (let reads = 1; versions.length > 0 && reads < MAX_READS; reads++) {
    const ids = await findChangedSince(context, plan, versions)
    versions = []
    if (ids.length > 0) await copyRows(context, plan, hasId(context, plan, ids), sink)
  }
  return { ...state, appended, after, table: after ? state.table : state.table - 1 }
}

/** Completes a backup with its manifest. */
export async function endBackup(context: BackupContext, state: BackupState, parts: Part[], nowMs: number) {
  const { companyId: company_id, database } = context
  const { at, kind, previous, sequence, appended } = state
  const counts = await countRows(context)
  const found = await readCompany(context)
  if (!found) return
  const { company, schema } = found
  const facts = { format: 2, company_id, database, at, finished_at: new Date(nowMs).toISOString(), kind } as const
  await writeManifest(context, { ...facts, previous, schema, sequence, appended, company, counts, parts })
}
