import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { select } from './read-state.ts'

/** Mail contents in R2 by key, each read when it is called. */
export type MailObjects = ReadonlyMap<string, () => Buffer>

const POLL_MS = 1

/** What the local R2 of a state directory has of mail. */
export function readMailObjects(state: string): MailObjects {
  const folder = join(state, 'v3/r2')
  const buckets = existsSync(folder) ? readdirSync(folder) : []
  return new Map(
    indexesOf(folder).flatMap((path) => {
      const db = new DatabaseSync(path, { readOnly: true })
      const rows = select<{ key: string; blob: string }>(
        db,
        "SELECT key, blob_id AS blob FROM _mf_objects WHERE key LIKE 'mail/%'",
      )
      db.close()
      return rows.map(({ key, blob }): [string, () => Buffer] => {
        const files = buckets.map((bucket) => join(folder, bucket, 'blobs', blob))
        return [key, () => readFileSync(files.find(existsSync) ?? blob)]
      })
    }),
  )
}

/** Resolves as soon as R2 begins to store an object more, or has stored it; or after `maxMs`. */
export async function nextMailObject(state: string, moment: 'begun' | 'stored', maxMs: number): Promise<void> {
  const list = () => (moment === 'begun' ? blobsOf(state) : [...readMailObjects(state).keys()])
  const before = new Set(list())
  const end = Date.now() + maxMs
  while (Date.now() < end && list().every((name) => before.has(name))) await sleep(POLL_MS)
}

/** The files of the bucket in which mail is, complete or not. */
function blobsOf(state: string): string[] {
  const folder = join(state, 'v3/r2')
  const buckets = existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith('-files')) : []
  const folders = buckets.map((name) => join(folder, name, 'blobs')).filter(existsSync)
  return folders.flatMap((path) => readdirSync(path))
}

/** The databases of the buckets. */
function indexesOf(folder: string): string[] {
  const databases = join(folder, 'miniflare-R2BucketObject')
  const files = existsSync(databases) ? readdirSync(databases) : []
  return files.filter((name) => name.endsWith('.sqlite') && !name.startsWith('metadata')).map((n) => join(databases, n))
}

interface ObjectRow {
  key: string
  state: string
  isNamed: number
}

/**
 * Each object must be known to a row, so that somebody removes it; each that a thread names, or named for a backup that
 * may still need it, must be there.
 *
 * @param isCollected what nothing names must have been removed
 */
export function checkMailObjects(db: DatabaseSync, objects: MailObjects, isCollected: boolean): string[] {
  const rows = select<ObjectRow>(
    db,
    `SELECT 'mail/' || o.company_id || '/' || o.content_hash || '/' || o.id AS key, state,
       t.id IS NOT NULL AS isNamed FROM email_thread_objects AS o
     LEFT JOIN email_threads AS t ON t.id = o.thread_id AND t.content_hash = o.content_hash`,
  )
  const known = new Set(rows.map(({ key }) => key))
  const findings = [...objects.keys()].filter((key) => !known.has(key)).map((key) => `the object ${key} is in no row`)
  for (const { key, state, isNamed } of rows) {
    const isUnderWay = state === 'writing' || state === 'removing'
    if (isUnderWay && isCollected) findings.push(`the object ${key} is still ${state}`)
    if (!isUnderWay && !objects.has(key)) findings.push(`the object ${key} is ${state}, and missing`)
    if ((state === 'stored') !== (isNamed === 1)) findings.push(`the object ${key} is ${state}, named: ${isNamed}`)
  }
  return findings
}

/** Objects that were announced and that no thread names yet. */
export function countUnnamed(db: DatabaseSync): number {
  return select(db, "SELECT id FROM email_thread_objects WHERE state = 'writing'").length
}
