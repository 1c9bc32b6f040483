import { Buffer } from 'node:buffer'
import { hash } from 'node:crypto'
import { gunzipSync, gzipSync } from 'node:zlib'
import { unavailable } from '../../kernel/http/errors.ts'
import { BUDGET_MS, nameOf, withDeadline } from '../../kernel/http/isolate.ts'
import { parseJson } from '../../kernel/http/messages.ts'
import { CONTENT, type Row } from './tables.ts'

/*
 * The objects of the bucket:
 *   backups/COMPANY/manifests/TIME-full.json          written last: a backup without it does not exist  35 days and more
 *   backups/COMPANY/parts/TIME/NNNNN-HASH.ndjson.gz   rows, one `Line` of JSON each                     as its manifest
 *   sequences.json                                    highest assigned ids of every company             kept
 */

/** A file of a backup, with its number of rows by name. */
export interface Part {
  key: string
  bytes: number
  sha256: string
  rows: Record<string, number>
}

export interface Manifest {
  format: 3
  company_id: number
  /** The start, which names the backup, and the end: each row is as of a time in between. */
  at: string
  finished_at: string
  /** The row of `companies` at the end, and the row counts of its tables then. */
  company: Row
  counts: Record<string, number>
  parts: Part[]
}

/** A line of a part: one row. */
export interface Line {
  name: string
  row: Row
}

export interface Store {
  bucket: R2Bucket
  companyId: number
}

const prefixOf = (companyId: number, folder: 'manifests' | 'parts') => `backups/${companyId}/${folder}/`

export const manifestKey = (companyId: number, at: string) => `${prefixOf(companyId, 'manifests')}${at}-full.json`

const MANIFEST_KEY = /\/(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)-full\.json$/

/** An unreadable backup. The message contains no values of rows. */
export class BackupError extends Error {
  override readonly name = 'BackupError'
}

/** The result of a call of R2 or KV. @throws ApiError 503 where that fails or is silent: its step can be repeated */
export async function inTime<T>(call: Promise<T>): Promise<T> {
  try {
    return await withDeadline(call, BUDGET_MS.storage)
  } catch (error) {
    const message = 'The storage of backups does not respond. Retry after the seconds in Retry-After'
    throw unavailable(10, { message, cause: `R2 or KV failed: ${nameOf(error)}` })
  }
}

/** Lists the starts of a company's complete backups, oldest first: about 35, which name them. */
export async function listBackups({ bucket, companyId }: Store): Promise<string[]> {
  const { objects } = await inTime(bucket.list({ prefix: prefixOf(companyId, 'manifests') }))
  return objects.flatMap(({ key }) => MANIFEST_KEY.exec(key)?.[1] ?? [])
}

/** @throws BackupError when it is missing or damaged */
export async function readManifest({ bucket, companyId }: Store, at: string): Promise<Manifest> {
  const key = manifestKey(companyId, at)
  const text = (await readObject(bucket, key)).toString()
  const { sha256, ...read }: Manifest & { sha256?: string } = Object(parseJson(text))
  if (sha256 !== hash('sha256', JSON.stringify(read))) throw new BackupError(`${key} is damaged: its checksum differs.`)
  if (read.format !== 3) throw new BackupError(`${key} has another format.`)
  if (manifestKey(read.company_id, read.at) !== key) throw new BackupError(`${key} is misplaced.`)
  return read
}

export async function writeManifest({ bucket }: Store, facts: Manifest): Promise<void> {
  const text = JSON.stringify({ ...facts, sha256: hash('sha256', JSON.stringify(facts)) })
  await inTime(bucket.put(manifestKey(facts.company_id, facts.at), text))
}

/** Bounds the text of a part. A written one has at most about 20 MB, with a last row of escapes: see {@link openPartWriter}. */
const MAX_TEXT_BYTES = 32_000_000

/** Reads the rows of a part. @throws BackupError when it is missing or does not match its manifest */
export async function readPart({ bucket }: Store, { key, sha256 }: Part): Promise<Line[]> {
  const bytes = await readObject(bucket, key)
  if (hash('sha256', bytes) !== sha256) throw new BackupError(`${key} is damaged: its checksum differs.`)
  const text = gunzipSync(bytes, { maxOutputLength: MAX_TEXT_BYTES }).toString()
  const lines = text.split('\n').filter(Boolean)
  return lines.map((line): Line => JSON.parse(line))
}

async function readObject(bucket: R2Bucket, key: string): Promise<Buffer> {
  const read = async () => (await bucket.get(key))?.arrayBuffer()
  const bytes = await inTime(read())
  if (!bytes) throw new BackupError(`${key} is missing.`)
  return Buffer.from(bytes)
}

/** A part is written after the page with which its text has this many characters, or earlier at twice as many. */
const PART_CHARACTERS = 3_000_000

/** Gathers lines of several pages, and writes them as the next parts of a backup. */
export function openPartWriter({ bucket, companyId }: Store, backup: { at: string; parts: number }) {
  const folder = `${prefixOf(companyId, 'parts')}${backup.at}/`
  const written: Part[] = []
  let number = backup.parts
  let text = ''
  let rows: Part['rows'] = {}

  async function flush(): Promise<void> {
    if (text === '') return
    const bytes = gzipSync(text)
    const sha256 = hash('sha256', bytes)
    // A call that failed by its deadline may store its bytes after the retry: they must not have the same key.
    const key = `${folder}${String(++number).padStart(5, '0')}-${sha256.slice(0, 8)}.ndjson.gz`
    await inTime(bucket.put(key, bytes))
    written.push({ key, bytes: bytes.length, sha256, rows })
    text = ''
    rows = {}
  }

  return {
    async add(name: string, added: readonly Row[]): Promise<void> {
      for (const row of added) {
        // Measured with its escapes, which may make it six times as long.
        text += `${JSON.stringify({ name, row } satisfies Line)}\n`
        rows[name] = (rows[name] ?? 0) + 1
        if (text.length >= 2 * PART_CHARACTERS) await flush()
      }
    },
    isFull: () => text.length >= PART_CHARACTERS,
    /** Writes the waiting lines, and takes all parts written since the last call. */
    async take(): Promise<Part[]> {
      await flush()
      return written.splice(0)
    },
  }
}

export type PartWriter = ReturnType<typeof openPartWriter>

const KEPT_MS = 35 * 86_400_000

/** The first backup with data: those of a company since it was made again for its restore have none. */
export async function findWithData(store: Store, backups: readonly string[]): Promise<string | undefined> {
  for (const at of backups) {
    const { counts } = await readManifest(store, at)
    if (CONTENT.some((name) => counts[name])) return at
  }
  return undefined
}

const REMOVED_AT_ONCE = 10

/** Leaves the newest backup with data out of those to remove; all, where a damaged manifest may be the newest. */
async function withoutLast(store: Store, backups: readonly string[], expired: readonly string[]) {
  if (expired.length === 0) return []
  try {
    const spared = await findWithData(store, backups.toReversed())
    return expired.filter((at) => at !== spared)
  } catch (error) {
    if (error instanceof BackupError) return []
    throw error
  }
}

/** Removes backups of more than 35 days, but for the newest and the newest with data, and parts without a manifest. */
export async function removeOldBackups({ bucket, companyId }: Store, nowMs: number): Promise<void> {
  const backups = await listBackups({ bucket, companyId })
  const expired = backups.slice(0, -1).filter((at) => Date.parse(at) < nowMs - KEPT_MS)
  const removed = await withoutLast({ bucket, companyId }, backups, expired)
  for (const at of removed) await inTime(bucket.delete(manifestKey(companyId, at)))
  const kept = new Set(backups).difference(new Set(removed))
  const prefix = prefixOf(companyId, 'parts')
  const folders = await inTime(bucket.list({ prefix, delimiter: '/' }))
  const orphans = folders.delimitedPrefixes.filter((folder) => !kept.has(folder.slice(prefix.length, -1)))
  for (const folder of orphans.slice(0, REMOVED_AT_ONCE)) {
    // The next backup removes the others of more than 1,000 files.
    const { objects } = await inTime(bucket.list({ prefix: folder }))
    await inTime(bucket.delete(objects.map(({ key }) => key)))
  }
}
