import type { PlacedContext } from '../../kernel/db/placement.ts'
import { log, nameOf } from '../../kernel/http/errors.ts'
import {
  copyPage,
  copyRows,
  countRows,
  findChangedSince,
  hasId,
  keyOf,
  readChanged,
  readCompany,
  type Sink,
} from './read-queries.ts'
import { recordBackup } from './restore-queries.ts'
import {
  BackupError,
  isFullDue,
  listBackups,
  type Manifest,
  openParts,
  type Part,
  type Parts,
  readManifest,
  removeOldBackups,
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
  /** The highest ids of appended rows, of the previous backup until their table is read. */
  appended: Record<string, number>
  /** The position in the reversed list of tables, and the key in that table. */
  table: number
  after: Key | null
  /** The number of written parts. */
  parts: number
}

type BackupContext = PlacedContext & Store

/** A longer backup starts again, since its rows are from too many different times. */
const MAX_BACKUP_MS = 12 * 3_600_000

/** Keys in the storage of the company's object: a value for each part, since one list would outgrow a value. */
const BACKUP = 'backup'
const PART = 'part/'

/** Backs up a company, and starts no page after some time: the next call continues. @returns whether it is done */
export async function backUpFor(context: BackupContext, kv: SyncKvStorage, ms: number): Promise<boolean> {
  const endMs = Date.now() + ms
  const stored = kv.get<BackupState>(BACKUP)
  const isFresh = stored && Date.now() - Date.parse(stored.at) < MAX_BACKUP_MS
  if (!isFresh) forgetBackup(kv)
  const begun = isFresh ? stored : await beginBackup(context, Date.now())
  if (!begun) return true
  const writer = openParts(context, begun)
  for (let state = begun; ; ) {
    const after = await stepBackup(context, state, writer)
    const isOver = Date.now() >= endMs
    if (!after || isOver || writer.isFull()) {
      const parts = await writer.take()
      for (const part of parts) kv.put(`${PART}${part.key}`, part)
      state = { ...(after ?? state), parts: state.parts + parts.length }
      kv.put(BACKUP, state)
    } else state = after
    if (!after) {
      await complete(context, state, kv)
      return true
    }
    if (isOver) return false
  }
}

async function complete(context: BackupContext, state: BackupState, kv: SyncKvStorage): Promise<void> {
  const parts = [...kv.list<Part>({ prefix: PART })].map(([, part]) => part)
  await endBackup(context, state, parts, Date.now())
  const { at, kind } = state
  await recordBackup(context, Date.parse(at))
  forgetBackup(kv)
  const bytes = parts.reduce((sum, part) => sum + part.bytes, 0)
  log('backup', { company_id: context.companyId, kind, parts: parts.length, bytes, began_at: at })
  // A failure here must not repeat the backup: the next one removes them.
  await removeOldBackups(context, Date.now()).catch((error: unknown) => {
    log('backup_failed', { company_id: context.companyId, error: nameOf(error) }, 'error')
  })
}

export function forgetBackup(kv: SyncKvStorage): void {
  kv.delete(BACKUP)
  for (const [name] of [...kv.list({ prefix: PART })]) kv.delete(name)
}

/**
 * Begins a backup of a company; null if it does not exist. The backup is full after 7 days, after a migration, and if
 * the company's feed does not continue the previous one.
 */
export async function beginBackup(context: BackupContext, nowMs: number): Promise<BackupState | null> {
  const found = await readCompany(context)
  if (!found) return null
  const { schema, oldestChange, company } = found
  const sequence = Number(company.last_change)
  const backups = await listBackups(context)
  const last = backups.at(-1)
  // An increment on a damaged backup could not be restored: the next one is full.
  const nullWhenDamaged = (error: unknown) => {
    if (error instanceof BackupError) return null
    throw error
  }
  // Its row does not name it where the company was set back or created again: the feed then has other changes.
  const isContinued = last && company.backed_up_at === Date.parse(last.at) && !isFullDue(backups, nowMs)
  const previous = isContinued ? await readManifest(context, last).catch(nullWhenDamaged) : null
  const isSame = previous?.schema === schema && previous.database === context.database
  const reachesBack = previous && (oldestChange ?? sequence + 1) <= previous.sequence + 1
  const base = isSame && reachesBack ? previous : null
  return {
    at: new Date(nowMs).toISOString(),
    kind: base ? 'increment' : 'full',
    previous: base?.at ?? null,
    since: base?.sequence ?? 0,
    sequence,
    appended: base?.appended ?? {},
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
  writer: Parts,
): Promise<BackupState | null> {
  const plan = TABLES[state.table]
  if (!plan) return null
  let versions: Key[] = []
  const sink: Sink = async (each, lines) => {
    await writer.add(lines)
    if (each !== plan || plan.parts.length === 0) return
    versions.push(...lines.map(({ row }) => keyOf({ key: ['id', plan.version ?? ''] }, row)))
  }
  let { appended } = state
  let after: Key | null
  if (plan.rows === 'changed' && state.kind === 'increment') {
    const { ids, next } = await readChanged(context, plan, state.after ?? [state.since], state.sequence)
    await copyRows(context, plan, hasId(context, plan, ids), sink)
    after = next
  } else {
    const before = appended[plan.name]
    const first = before === undefined ? null : [before]
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
