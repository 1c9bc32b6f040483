import type { DatabaseSync } from 'node:sqlite'
import { isDeepStrictEqual } from 'node:util'
import { gunzipSync } from 'node:zlib'
import type { CompanyState } from './company-state.ts'
import { differences } from './differences.ts'
import { nameOf } from './journal.ts'
import type { MailObjects } from './mail-objects.ts'
import { select } from './read-state.ts'
import { makeThreadBody } from './thread-body.ts'

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

/** Whether the arrays of a thread are those of a body. */
function isContent(content: unknown, body: { participants: object[]; labels: string[]; messages: object[] }) {
  if (typeof content !== 'object' || content === null) return false
  return (['participants', 'labels', 'messages'] as const).every((key) =>
    isDeepStrictEqual(Reflect.get(content, key), body[key]),
  )
}
