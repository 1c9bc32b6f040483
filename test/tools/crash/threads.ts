import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { gunzipSync } from 'node:zlib'
import { type MailThread, makeNoise, makeThread } from '../harness/mail-thread.ts'
import { differences, select } from './rows.ts'
import { type CompanyState, nameOf } from './state.ts'

interface StoredThread {
  id: string
  content_hash: string
  account_email: string
  legacy_thread_id: string
  subject: string
  message_count: number
  revision: number
  content_revision: number
  updated_at: number
  deleted: number
  content: string | null
}

/** Each thread must be the last body that was written, and none but it. */
export function checkThreads(db: DatabaseSync, expected: CompanyState, objects: MailObjects): string[] {
  const stored = new Map(
    select<StoredThread>(db, 'SELECT * FROM email_threads').map((row) => [
      nameOf({ accountEmail: row.account_email, legacyThreadId: row.legacy_thread_id }),
      row,
    ]),
  )
  const names = new Set([...stored.keys(), ...expected.threads.keys()])
  return [...names].flatMap((name) => checkThread(db, expected, objects, name, stored.get(name)))
}

function checkThread(
  db: DatabaseSync,
  expected: CompanyState,
  objects: MailObjects,
  name: string,
  row: StoredThread | undefined,
): string[] {
  const wanted = expected.threads.get(name)
  if (!wanted || !row) return [`thread ${name} is ${row ? 'there, and was never written' : 'missing'}`]
  const body = makeThreadBody(row.account_email, wanted.bytes, wanted.mark)
  const { id, subject, message_count, revision, content_revision, updated_at, deleted } = row
  return [
    ...differences(
      `thread ${name}`,
      { id, subject, message_count, revision, content_revision, updated_at, deleted },
      {
        ...{ id: wanted.id, subject: JSON.stringify(wanted.mark), message_count: body.messages.length },
        ...{ revision: wanted.revision, content_revision: wanted.revision },
        ...{ updated_at: wanted.updated_at, deleted: 0 },
      },
    ),
    ...(isContent(readContent(db, row, objects), body)
      ? []
      : [`the content of thread ${name} is not what ${wanted.mark} sent`]),
  ]
}

/** The stored JSON, in the form of `src/resources/mail/content.ts`; null where it cannot be read. */
function readContent(db: DatabaseSync, row: StoredThread, objects: MailObjects): unknown {
  try {
    const content = row.content === null ? readObject(db, row, objects) : Buffer.from(row.content, 'base64')
    return JSON.parse(`{${gunzipSync(content)}}`)
  } catch {
    return null
  }
}

/** The object that the thread names; empty where it names none. */
function readObject(db: DatabaseSync, { id, content_hash }: StoredThread, objects: MailObjects): Buffer {
  const object = db
    .prepare('SELECT id, company_id FROM email_thread_objects WHERE thread_id = ? AND content_hash = ?')
    .get(id, content_hash)
  return objects.get(`mail/${object?.company_id}/${content_hash}/${object?.id}`)?.() ?? Buffer.alloc(0)
}

function isContent(content: unknown, body: { participants: object[]; labels: string[]; messages: object[] }) {
  if (typeof content !== 'object' || content === null) return false
  return (['participants', 'labels', 'messages'] as const).every((key) =>
    isDeepStrictEqual(Reflect.get(content, key), body[key]),
  )
}

/** Mail contents in R2 by key, each read when it is called. */
export type MailObjects = ReadonlyMap<string, () => Buffer>

const POLL_MS = 1

/** What the local R2 of a state directory has of mail. */
export function readMailObjects(state: string): MailObjects {
  const folder = join(state, 'v3/r2')
  const buckets = existsSync(folder) ? readdirSync(folder) : []
  return new Map(
    indexesOf(folder).flatMap((path) => {
      using db = new DatabaseSync(path, { readOnly: true, timeout: 5_000 })
      const rows = select<{ key: string; blob: string }>(
        db,
        "SELECT key, blob_id AS blob FROM _mf_objects WHERE key LIKE 'mail/%'",
      )
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

/** Small, usual and large. */
export const THREAD_BYTES = [2_000, 150_000, 1_700_000, 3_200_000] as const

/** More than a megabyte compressed, which R2 holds. */
export const BYTES_FOR_R2 = 2_000_000

const templates = new Map<number, MailThread>()

/** A thread of about `bytes` bytes that no other write sends: its mark stands all over it, so that a mixture shows. */
export function makeThreadBody(accountEmail: string, bytes: number, mark: string): MailThread {
  const template = templates.get(bytes) ?? makeTemplate(bytes)
  templates.set(bytes, template)
  return {
    ...template,
    account_email: accountEmail,
    subject: mark,
    labels: [mark],
    messages: template.messages.map((message) => ({ ...message, snippet: mark })),
  }
}

function makeTemplate(bytes: number): MailThread {
  if (bytes !== BYTES_FOR_R2) return makeThread(bytes)
  const thread = makeThread(2_000)
  return { ...thread, messages: thread.messages.map((message) => ({ ...message, body_plain: makeNoise(bytes) })) }
}
