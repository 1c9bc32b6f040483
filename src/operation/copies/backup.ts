import { isoTime } from '../../kernel/api/contract.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { log, nameOf } from '../../kernel/http/errors.ts'
import * as reader from './read-queries.ts'
import { recordBackup } from './restore-queries.ts'
import { openParts, type Part, type Parts, removeOldBackups, type Store, writeManifest } from './store.ts'
import { type Key, TABLES } from './tables.ts'

/** Rows that change while they are read are read up to this often. */
const MAX_READS = 5

export interface BackupState {
  at: string
  /** The position in the reversed list of tables, and the key in that table. */
  table: number
  after: Key | null
  parts: number
}

type BackupContext = CompanyContext & Store

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
  await recordBackup(context, Date.parse(state.at))
  forgetBackup(kv)
  const bytes = parts.reduce((sum, part) => sum + part.bytes, 0)
  log('backup', { company_id: context.companyId, parts: parts.length, bytes, began_at: state.at })
  // A failure here must not repeat the backup: the next one removes them.
  await removeOldBackups(context, Date.now()).catch((error: unknown) => {
    log('backup_failed', { company_id: context.companyId, error: nameOf(error) }, 'error')
  })
}

export function forgetBackup(kv: SyncKvStorage): void {
  kv.delete(BACKUP)
  for (const [name] of [...kv.list({ prefix: PART })]) kv.delete(name)
}

export async function beginBackup(context: BackupContext, nowMs: number): Promise<BackupState | null> {
  const { company } = await reader.readCompany(context)
  return company ? { at: isoTime(nowMs), table: TABLES.length - 1, after: null, parts: 0 } : null
}

/**
 * Reads one page of a table for the next part. Rows that change meanwhile are read again: the last read counts. After an
 * interruption, the backup continues with the state as of the last part written, and writes later ones again.
 *
 * @returns the state of the backup; null when all tables are read
 */
export async function stepBackup(context: BackupContext, state: BackupState, writer: Parts) {
  const plan = TABLES[state.table]
  if (!plan) return null
  let versions: Key[] = []
  const sink: reader.Sink = async (each, lines) => {
    await writer.add(lines)
    if (each !== plan || plan.parts.length === 0) return
    versions.push(...lines.map(({ row }) => reader.keyOf({ key: ['id', plan.version ?? ''] }, row)))
  }
  const { next } = await reader.copyPage(context, plan, state.after, sink)
  for (let reads = 1; versions.length > 0 && reads < MAX_READS; reads++) {
    const ids = await reader.findChangedSince(context, plan, versions)
    versions = []
    const isChanged = reader.isAmong(context, { ...plan, key: ['id'] }, ids)
    if (ids.length > 0) await reader.copyRows(context, plan, isChanged, sink)
  }
  return { ...state, after: next, table: next ? state.table : state.table - 1 }
}

export async function endBackup(context: BackupContext, { at }: BackupState, parts: Part[], nowMs: number) {
  const counts = await reader.countRows(context)
  const { company } = await reader.readCompany(context)
  if (!company) return
  const facts = { format: 2, company_id: context.companyId, at, finished_at: isoTime(nowMs) } as const
  await writeManifest(context, { ...facts, company, counts, parts })
}
