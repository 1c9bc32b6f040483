import { isoTime } from '../../kernel/api/contract.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { log, nameOf } from '../../kernel/http/isolate.ts'
import * as reader from './read-queries.ts'
import { recordBackup } from './restore-queries.ts'
import { openPartWriter, type Part, type PartWriter, removeOldBackups, type Store, writeManifest } from './store.ts'
import { type Key, TABLE_NAMES, TABLES } from './tables.ts'

export interface BackupState {
  at: string
  tables: string
  /** The position in the list of tables, which descends to -1 at the end, and the key in that table. */
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
export async function continueBackup(context: BackupContext, kv: SyncKvStorage, ms: number): Promise<boolean> {
  const endMs = Date.now() + ms
  let state = kv.get<BackupState>(BACKUP)
  if (state?.tables !== TABLE_NAMES || Date.now() - Date.parse(state.at) >= MAX_BACKUP_MS) {
    forgetBackup(kv)
    state = beginBackup(Date.now())
  }
  const writer = openPartWriter(context, state)
  while (state.table >= 0) {
    state = await stepBackup(context, state, writer)
    const isOver = Date.now() >= endMs
    if (state.table < 0 || isOver || writer.isFull()) {
      const parts = await writer.take()
      for (const part of parts) kv.put(`${PART}${part.key}`, part)
      state = { ...state, parts: state.parts + parts.length }
      kv.put(BACKUP, state)
    }
    if (isOver) return false
  }
  const parts = [...kv.list<Part>({ prefix: PART })].map(([, part]) => part)
  await endBackup(context, state, parts, Date.now())
  forgetBackup(kv)
  return true
}

export function forgetBackup(kv: SyncKvStorage): void {
  kv.delete(BACKUP)
  for (const [name] of [...kv.list({ prefix: PART })]) kv.delete(name)
}

export const beginBackup = (nowMs: number): BackupState => {
  return { at: isoTime(nowMs), tables: TABLE_NAMES, table: TABLES.length - 1, after: null, parts: 0 }
}

/**
 * Reads one page of a table for the next part. After an interruption, the backup continues with the state as of the last
 * part written, and writes later ones again.
 */
export async function stepBackup(context: BackupContext, state: BackupState, writer: PartWriter): Promise<BackupState> {
  const plan = TABLES[state.table]
  if (!plan) return state
  const { tables, next } = await reader.readPage(context, plan, state.after)
  for (const each of tables) await writer.add(each.plan.name, each.rows)
  return { ...state, after: next, table: next ? state.table : state.table - 1 }
}

/** Writes the manifest, and removes expired backups; nothing for a company that is gone. */
export async function endBackup(context: BackupContext, { at }: BackupState, parts: Part[], nowMs: number) {
  const { companyId: company_id } = context
  const counts = await reader.countRows(context)
  const { company } = await reader.readCompany(context)
  if (!company) return
  await writeManifest(context, { format: 3, company_id, at, finished_at: isoTime(nowMs), company, counts, parts })
  await recordBackup(context, Date.parse(at))
  const bytes = parts.reduce((sum, part) => sum + part.bytes, 0)
  log('backup', { company_id, parts: parts.length, bytes, began_at: at })
  // A failure here must not repeat the backup: the next one removes them.
  await removeOldBackups(context, nowMs).catch((error: unknown) => {
    log('backup_failed', { company_id, error: nameOf(error) }, 'error')
  })
}
