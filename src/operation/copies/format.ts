import type { Buffer } from 'node:buffer'
import { hash } from 'node:crypto'
import { gunzipSync, gzipSync } from 'node:zlib'
import * as z from 'zod/mini'

/*
 * The objects of the bucket:
 *   backups/COMPANY/manifests/TIME-KIND.json     written last: a backup without it does not exist     35 days and more
 *   backups/COMPANY/parts/TIME/NNNNN.ndjson.gz   rows, one `Line` of JSON each                        as its manifest
 *   sequences.json                               highest assigned ids of every company                kept
 */

/** A value as D1 returns it. */
export type Value = string | number | null
export type Row = Record<string, Value>

/** One row. A part repeats the key and version of its owner, and is restored only with that version. */
export interface Line {
  name: string
  row: Row
  of?: [id: Value, version: number]
}

const count = z.int().check(z.minimum(0))
const counts = z.record(z.string(), count)
const value = z.union([z.string(), z.number(), z.null()])

const part = z.object({ key: z.string(), bytes: count, sha256: z.string(), rows: counts })

/** A file of a backup, with its number of rows by name. */
export type Part = z.infer<typeof part>

const manifest = z.object({
  /** Format 1 has no checksum. */
  format: z.literal([1, 2]),
  company_id: z.int(),
  /** The start, which names the backup, and the end: each row is as of a time in between. */
  at: z.iso.datetime(),
  finished_at: z.iso.datetime(),
  kind: z.enum(['full', 'increment']),
  /** The backup that an increment continues. */
  previous: z.nullable(z.iso.datetime()),
  /** The newest migration of the database, and its binding. An increment requires that both are unchanged. */
  schema: z.string(),
  database: z._default(z.string(), 'DB'),
  /** The newest change at the start: the next increment starts after it. */
  sequence: count,
  /** The highest id of each table with appended rows. */
  appended: counts,
  /** The row of `companies` at the end, and the row counts of its tables then. */
  company: z.record(z.string(), value),
  counts,
  parts: z.array(part),
})

/** The metadata of a backup. */
export type Manifest = z.infer<typeof manifest>

/** A backup, identified by the name of its manifest. */
export interface BackupName {
  at: string
  kind: Manifest['kind']
}

export const manifestPrefix = (companyId: number) => `backups/${companyId}/manifests/`
export const partsPrefix = (companyId: number) => `backups/${companyId}/parts/`

export function manifestKey(companyId: number, { at, kind }: BackupName): string {
  return `${manifestPrefix(companyId)}${at}-${kind}.json`
}

export function partKey(companyId: number, at: string, number: number): string {
  return `${partsPrefix(companyId)}${at}/${String(number).padStart(5, '0')}.ndjson.gz`
}

const MANIFEST_NAME = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)-(full|increment)\.json$/

/** Parses the key of a manifest; null for any other key. */
export function parseManifestKey(companyId: number, key: string): BackupName | null {
  const [, at, kind] = MANIFEST_NAME.exec(key.slice(manifestPrefix(companyId).length)) ?? []
  return at && (kind === 'full' || kind === 'increment') ? { at, kind } : null
}

/** An unreadable backup. The message contains no values of rows. */
export class BackupError extends Error {
  override readonly name = 'BackupError'
}

/** The text of a manifest, with its checksum. */
export function formatManifest(facts: Manifest): string {
  return JSON.stringify({ ...facts, sha256: hash('sha256', JSON.stringify(facts)) })
}

/** @throws BackupError for an invalid or altered manifest */
export function parseManifest(text: string, key = 'A manifest'): Manifest {
  try {
    const { sha256, ...facts } = JSON.parse(text)
    const parsed = manifest.parse(facts)
    if (parsed.format === 1 || sha256 === hash('sha256', JSON.stringify(facts))) return parsed
  } catch {
    throw new BackupError(`${key} cannot be read.`)
  }
  throw new BackupError(`${key} is damaged: its checksum differs.`)
}

/** Compresses a part, and describes it for the manifest. */
export function packPart(key: string, lines: readonly Line[]): { part: Part; bytes: Buffer } {
  const bytes = gzipSync(lines.map((line) => `${JSON.stringify(line)}\n`).join(''))
  const rows: Part['rows'] = {}
  for (const { name } of lines) rows[name] = (rows[name] ?? 0) + 1
  return { part: { key, bytes: bytes.length, sha256: hash('sha256', bytes), rows }, bytes }
}

/** Bounds the text of a part. A written one has at most about 8,000,000 characters: see `PartWriter`. */
const MAX_TEXT_BYTES = 32_000_000

/** Unpacks the rows of a part. @throws BackupError when it does not match its manifest */
export function unpackPart({ key, sha256 }: Part, bytes: Uint8Array): Line[] {
  if (hash('sha256', bytes) !== sha256) throw new BackupError(`${key} is damaged: its checksum differs.`)
  const text = gunzipSync(bytes, { maxOutputLength: MAX_TEXT_BYTES }).toString()
  return text
    .split('\n')
    .filter(Boolean)
    .map((line): Line => JSON.parse(line))
}

const DAY_MS = 86_400_000
const KEPT_MS = 35 * DAY_MS
/** One hour less than 7 days, so that the eighth daily backup is full. */
const FULL_EVERY_MS = 7 * DAY_MS - 3_600_000

/** Whether the next backup must be full. @param backups the existing ones, oldest first */
export function isFullDue(backups: readonly BackupName[], nowMs: number): boolean {
  return !backups.some(({ at, kind }) => kind === 'full' && Date.parse(at) > nowMs - FULL_EVERY_MS)
}

/** Plans which backups to remove, oldest first: those older than 35 days that no kept backup needs. */
export function planRemoval(backups: readonly BackupName[], nowMs: number): BackupName[] {
  const kept = backups.findIndex(({ at }) => Date.parse(at) >= nowMs - KEPT_MS)
  const needed = backups.slice(0, kept + 1).findLastIndex(({ kind }) => kind === 'full')
  return kept === -1 || needed === -1 ? [] : backups.slice(0, needed)
}

/** Plans the backups that restore a time: the last full one before it and the increments after that. */
export function planRestore(backups: readonly BackupName[], untilMs: number): BackupName[] {
  const before = backups.filter(({ at }) => Date.parse(at) <= untilMs)
  const first = before.findLastIndex(({ kind }) => kind === 'full')
  return first === -1 ? [] : before.slice(first)
}

/** The company's highest assigned ids: the next ones follow them. */
export const SEQUENCES = [
  'last_client_id',
  'last_order_id',
  'last_invoice_id',
  'last_invoice_number',
  'last_payment_id',
  'last_change',
] as const

export type Sequences = Record<(typeof SEQUENCES)[number], number>
