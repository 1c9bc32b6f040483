import type { DatabaseSync } from 'node:sqlite'
import { isDeepStrictEqual } from 'node:util'
import { brotliDecompressSync } from 'node:zlib'
import type { CompanyState } from './company-state.ts'
import { nameOf } from './journal.ts'
import { select } from './read-state.ts'
import { makeThreadBody } from './thread-body.ts'

interface StoredThread {
  id: string
  account_email: string
  legacy_thread_id: string
  subject: string
  message_count: number
  revision: number
  content_revision: number
  updated_at: number
  deleted: number
}

/** Each thread must be the last body that was written, and none but it. */
export function checkThreads(db: DatabaseSync, expected: CompanyState): string[] {
  const stored = new Map(
    select<StoredThread>(db, 'SELECT * FROM email_threads').map((row) => [
      nameOf({ accountEmail: row.account_email, legacyThreadId: row.legacy_thread_id }),
      row,
    ]),
  )
  const names = new Set([...stored.keys(), ...expected.threads.keys()])
  return [
    ...[...names].flatMap((name) => checkThread(db, expected, name, stored.get(name))),
    ...select<{ thread_id: string }>(
      db,
      'SELECT thread_id FROM email_thread_segments EXCEPT SELECT id FROM email_threads',
    ).map(({ thread_id }) => `segments of thread ${thread_id}, which is not there`),
  ]
}

function checkThread(db: DatabaseSync, expected: CompanyState, name: string, row: StoredThread | undefined): string[] {
  const wanted = expected.threads.get(name)
  if (!wanted || !row) return [`thread ${name} is ${row ? 'there, and was never written' : 'missing'}`]
  const body = makeThreadBody(row.account_email, wanted.bytes, wanted.mark)
  const { revision, updated_at } = wanted
  const actual = [
    row.id,
    row.subject,
    row.message_count,
    row.revision,
    row.content_revision,
    row.updated_at,
    row.deleted,
  ]
  const wantedColumns = [
    wanted.id,
    JSON.stringify(wanted.mark),
    body.messages.length,
    revision,
    revision,
    updated_at,
    0,
  ]
  return [
    ...(isDeepStrictEqual(actual, wantedColumns) ? [] : [`thread ${name} is ${actual} instead of ${wantedColumns}`]),
    ...(isContent(readContent(db, row.id), body)
      ? []
      : [`the content of thread ${name} is not what ${wanted.mark} sent`]),
  ]
}

/** The stored JSON, as `test/mail/threads/segments.test.ts` has its form; null where it cannot be read. */
function readContent(db: DatabaseSync, threadId: string): unknown {
  const segments = db
    .prepare("SELECT data FROM email_thread_segments WHERE thread_id = ? AND field = 'content' ORDER BY position")
    .all(threadId)
  try {
    const parts = segments.map(({ data }) => brotliDecompressSync(Buffer.from(String(data), 'base64')))
    return JSON.parse(`{${Buffer.concat(parts)}}`)
  } catch {
    return null
  }
}

/** Whether the arrays of a thread are those of a body. */
export function isContent(content: unknown, body: { participants: object[]; labels: string[]; messages: object[] }) {
  if (typeof content !== 'object' || content === null) return false
  return (['participants', 'labels', 'messages'] as const).every((key) =>
    isDeepStrictEqual(Reflect.get(content, key), body[key]),
  )
}
