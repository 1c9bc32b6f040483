import type { CompanyContext } from '../../kernel/db/context.ts'
import { BUDGET_MS, withDeadline } from '../../kernel/http/deadline.ts'
import {
  BackupError,
  formatManifest,
  isFullDue,
  type Line,
  type Manifest,
  manifestKey,
  type Part,
  packPart,
  partKey,
  partsPrefix,
  planRemoval,
} from './format.ts'
import {
  countRows,
  findChangedSince,
  readChanged,
  readCompany,
  readParts,
  readRows,
  readTable,
  type Version,
} from './queries.ts'
import { listBackups, readManifest } from './store.ts'
import { TABLES, type TablePlan } from './tables.ts'

/** A part is written after the page with which its text has this many characters, or earlier at twice as many. */
const PART_CHARACTERS = 3_000_000
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
  after: (string | number | null)[] | null
  /** The number of written parts. */
  parts: number
}

export interface BackupContext extends CompanyContext {
  bucket: R2Bucket
  /** The binding of the company's database. */
  database: string
}

/**
 * Begins a backup of a company; null if it does not exist. The backup is full after 7 days, after a migration, and if
 * the feed no longer reaches back to the previous one.
 */
export async function beginBackup(context: BackupContext, nowMs: number): Promise<BackupState | null> {
  const { database } = context
  const found = await readCompany(context)
  if (!found) return null
  const backups = await listBackups(context)
  const last = backups.at(-1)
  const isContinued = last && !isFullDue(backups, nowMs)
  const previous = isContinued ? await readManifest(context, last).catch(nullWhenDamaged) : null
  const sequence = Number(found.company.last_change)
  const reachesBack =
    previous && previous.sequence <= sequence && (found.oldestChange ?? sequence + 1) <= previous.sequence + 1
  const base =
    previous && reachesBack && previous.schema === found.schema && previous.database === database ? previous : null
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

/** An increment on a damaged backup could not be restored: make the next one full. */
function nullWhenDamaged(error: unknown): null {
  if (error instanceof BackupError) return null
  throw error
}

/**
 * Reads one page of a table for the next part. After an interruption, the backup continues with the state as of the last
 * part written, and writes later ones again.
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
  const appended = { ...state.appended }
  const after = await copyPage(context, plan, { ...state, appended }, writer)
  return { ...state, appended, after, table: after ? state.table : state.table - 1 }
}

/** @returns the key after which the next page begins; null at the end of the table */
async function copyPage(context: BackupContext, plan: TablePlan, state: BackupState, writer: PartWriter) {
  const isIncrement = state.kind === 'increment'
  if (plan.rows === 'changed' && plan.feed && isIncrement) {
    const after = Number(state.after?.[0] ?? state.since)
    const { ids, next } = await readChanged(context, plan, after, state.sequence)
    await copyRows(context, plan, ids, writer)
    return next === null ? null : [next]
  }
  const first = plan.rows === 'appended' && isIncrement ? [state.appendedBefore[plan.name] ?? 0] : null
  const { lines, next } = await readTable(context, plan, state.after ?? first)
  await writer.add(lines)
  if (plan.rows === 'appended')
    state.appended[plan.name] = Number(lines.at(-1)?.row.id ?? state.appended[plan.name] ?? 0)
  const versions = versionsOf(plan, lines)
  if (versions.length > 0) {
    await copyParts(context, plan, versions, writer)
    await copyRows(context, plan, await findChangedSince(context, plan, versions), writer)
  }
  return next
}

/** Copies rows with their parts, and reads them again if they change meanwhile: the last read counts. */
async function copyRows(
  context: BackupContext,
  plan: TablePlan,
  ids: readonly (string | number | null)[],
  writer: PartWriter,
) {
  let left = ids
  for (let reads = 0; left.length > 0 && reads < MAX_READS; reads++) {
    const versions: Version[] = []
    for await (const lines of readRows(context, plan, left)) {
      await writer.add(lines)
      versions.push(...versionsOf(plan, lines))
    }
    await copyParts(context, plan, versions, writer)
    left = await findChangedSince(context, plan, versions)
  }
}

async function copyParts(context: BackupContext, plan: TablePlan, versions: readonly Version[], writer: PartWriter) {
  const ids = versions.map(([id]) => id)
  for (const part of plan.feed?.parts ?? []) {
    for await (const lines of readParts(context, plan, part, ids)) await writer.add(lines)
  }
}

function versionsOf({ feed }: TablePlan, lines: readonly Line[]): Version[] {
  if (!feed || feed.parts.length === 0) return []
  return lines.map(({ row }) => [row.id ?? null, Number(row[feed.version])])
}

/** Gathers lines of several pages, and writes them as the next parts of a backup. */
export class PartWriter {
  private readonly context: BackupContext
  private readonly at: string
  private number: number
  private lines: Line[] = []
  private characters = 0
  private written: Part[] = []

  constructor(context: BackupContext, { at, parts }: BackupState) {
    this.context = context
    this.at = at
    this.number = parts
  }

  async add(lines: readonly Line[]): Promise<void> {
    for (const line of lines) {
      this.lines.push(line)
      this.characters += Object.values(line.row).reduce((sum: number, value) => sum + String(value).length + 20, 0)
      if (this.characters >= 2 * PART_CHARACTERS) await this.flush()
    }
  }

  private async flush(): Promise<void> {
    if (this.lines.length === 0) return
    const { bucket, companyId } = this.context
    const { part, bytes } = packPart(partKey(companyId, this.at, ++this.number), this.lines)
    await withDeadline(bucket.put(part.key, bytes), BUDGET_MS.storage)
    this.written.push(part)
    this.lines = []
    this.characters = 0
  }

  get isFull(): boolean {
    return this.characters >= PART_CHARACTERS
  }

  /** Writes the waiting lines, and takes all parts written since the last call. */
  async take(): Promise<Part[]> {
    await this.flush()
    return this.written.splice(0)
  }
}

/** Completes a backup with its manifest. */
export async function endBackup(
  context: BackupContext,
  state: BackupState,
  parts: Part[],
  nowMs: number,
): Promise<void> {
  const { companyId: company_id, bucket } = context
  const { at, kind, previous, sequence, appended } = state
  const names = TABLES.flatMap(({ name, feed }) => [name, ...(feed?.parts ?? []).map(({ table }) => table)])
  const counts = await countRows(context, names)
  const found = await readCompany(context)
  if (!found) return
  const { company, schema } = found
  const finished_at = new Date(nowMs).toISOString()
  const { database } = context
  const manifest: Manifest = {
    format: 2,
    company_id,
    database,
    at,
    finished_at,
    kind,
    previous,
    schema,
    sequence,
    appended,
    company,
    counts,
    parts,
  }
  await withDeadline(bucket.put(manifestKey(company_id, manifest), formatManifest(manifest)), BUDGET_MS.storage)
}

/** Limits the backups that one call removes, and the objects of one deletion. */
const REMOVED_AT_ONCE = 10
const KEYS_AT_ONCE = 1_000

/** Removes expired backups, and parts without a manifest. */
export async function removeOldBackups(context: BackupContext, nowMs: number): Promise<void> {
  const { bucket, companyId } = context
  const backups = await listBackups(context)
  // Remove the newest first, so that the rest of a chain still begins with a full backup.
  for (const backup of planRemoval(backups, nowMs).reverse()) {
    await withDeadline(bucket.delete(manifestKey(companyId, backup)), BUDGET_MS.storage)
  }
  const kept = new Set((await listBackups(context)).map(({ at }) => at))
  const prefix = partsPrefix(companyId)
  const folders = await withDeadline(bucket.list({ prefix, delimiter: '/' }), BUDGET_MS.storage)
  const orphans = folders.delimitedPrefixes.filter((folder) => !kept.has(folder.slice(prefix.length, -1)))
  for (const folder of orphans.slice(0, REMOVED_AT_ONCE)) await removeFolder(bucket, folder)
}

async function removeFolder(bucket: R2Bucket, prefix: string): Promise<void> {
  for (let hasMore = true; hasMore; ) {
    const page = await withDeadline(bucket.list({ prefix, limit: KEYS_AT_ONCE }), BUDGET_MS.storage)
    if (page.objects.length === 0) return
    await withDeadline(bucket.delete(page.objects.map(({ key }) => key)), BUDGET_MS.storage)
    hasMore = page.truncated
  }
}
