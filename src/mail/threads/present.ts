import { isoTime, isoTimeOrNull } from '../../http/time.ts'
import { jsonAnswer } from '../raw-json.ts'
import { contentText, TEXT_FIELDS, type TextField, type ThreadInput } from './input.ts'
import { IN_SEGMENTS, type Segment, type ThreadRow } from './queries.ts'
import { fromSegments } from './segments.ts'

type Piece = string | Uint8Array

/** The answer to a read: the stored JSON as it was sent. */
export function presentStored(row: ThreadRow, segments: readonly Segment[], headers: Record<string, string>): Response {
  return present(row, textsOf(row, segments), readField(segments, 'content'), headers)
}

/** The answer to a write: what was sent, and of what was left out what is stored. */
export function presentWritten(row: ThreadRow, segments: readonly Segment[], input: ThreadInput): Response {
  const sent = TEXT_FIELDS.flatMap((field) => {
    const text = input.texts[field]
    return text ? [[field, [text]]] : []
  })
  return present(row, { ...textsOf(row, segments), ...Object.fromEntries(sent) }, contentText(input.content))
}

function present(
  row: ThreadRow,
  texts: Record<TextField, Iterable<Piece>>,
  content: Iterable<Uint8Array>,
  headers?: Record<string, string>,
): Response {
  const known = JSON.stringify({
    id: row.id,
    account_email: row.accountEmail,
    legacy_thread_id: row.legacyThreadId,
    message_count: row.messageCount,
    first_message_at: isoTimeOrNull(row.firstMessageAt),
    last_message_at: isoTimeOrNull(row.lastMessageAt),
    last_synced_at: isoTimeOrNull(row.lastSyncedAt),
    created_at: isoTime(row.createdAt),
    updated_at: isoTime(row.updatedAt),
    deleted: row.deleted,
  })
  return jsonAnswer(piecesOf(known, texts, content), headers)
}

function* piecesOf(
  known: string,
  texts: Record<TextField, Iterable<Piece>>,
  content: Iterable<Piece>,
): Generator<Piece> {
  yield `{"email_thread":${known.slice(0, -1)}`
  for (const field of TEXT_FIELDS) {
    yield `,"${field}":`
    yield* texts[field]
  }
  yield ','
  yield* content
  yield '}}'
}

function textsOf(row: ThreadRow, segments: readonly Segment[]): Record<TextField, Iterable<Piece>> {
  const read = (stored: string | null, field: TextField) =>
    stored === IN_SEGMENTS ? readField(segments, field) : [stored ?? 'null']
  return {
    mail_thread_id: read(row.mailThreadId, 'mail_thread_id'),
    subject: read(row.subject, 'subject'),
    snippet: read(row.snippet, 'snippet'),
    mail_history_id: read(row.mailHistoryId, 'mail_history_id'),
  }
}

function readField(segments: readonly Segment[], field: string): Iterable<Uint8Array> {
  return fromSegments(segments.filter((segment) => segment.field === field).map(({ data }) => data))
}
