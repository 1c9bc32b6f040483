import type { Json, Row } from './types.ts'

/** Mail threads and order files, with the field names that the API uses on the wire. */

export interface ThreadContext {
  thread_id: string
  legacy_thread_id: string | null
  sender_email: string | null
  client_id: string | null
  client_data: Json
  clients_data: Json
  /** An array in practice; its elements carry an `id`. */
  orders_data: Json
  selected_order_id: string | null
  participant_emails: Json
  participants_data: Json
  fetched_at: string
  updated_at: string
}

export interface Mailbox {
  name?: string
  email?: string
}

export interface Attachment {
  filename?: string
  mime_type?: string
  size_bytes?: number
  /** Set once the bytes are stored. */
  storage_key?: string | null
  mail_attachment_id?: string
  [field: string]: unknown
}

/** The suggested shape; the API stores any object. */
export interface Message {
  id?: string
  /** ISO 8601 with an offset. */
  sent_at?: string
  from?: Mailbox
  to?: Mailbox[]
  subject?: string
  snippet?: string
  body_plain?: string
  body_text?: string
  body_html?: string | null
  is_from_us?: boolean
  attachments?: Attachment[]
  [field: string]: unknown
}

/** A scalar left out keeps its stored value, `null` clears it; an array left out becomes empty. */
export interface EmailThreadBody {
  account_email: string
  /** All messages of the thread, on every call: nothing is merged. */
  messages: Message[]
  participants?: object[]
  labels?: string[]
  subject?: string | null
  snippet?: string | null
  mail_thread_id?: string | null
  first_message_at?: string | null
  last_message_at?: string | null
  mail_history_id?: string | null
  last_synced_at?: string | null
}

export interface EmailThread {
  id: string
  account_email: string
  legacy_thread_id: string
  mail_thread_id: string | null
  subject: string | null
  snippet: string | null
  participants: Row[]
  labels: string[]
  messages: Message[]
  message_count: number
  first_message_at: string | null
  last_message_at: string | null
  mail_history_id: string | null
  last_synced_at: string
  created_at: string
  updated_at: string
  deleted: boolean
}

export interface PresignRequest {
  fileName: string
  /** Default `application/octet-stream`. */
  contentType?: string
  /** Bytes, at most 157,286,400; the storage refuses an upload of another length. */
  size: number
  legacyThreadId: string
}

export interface PresignedUpload {
  uploadUrl: string
  key: string
  contentType: string
  /** Seconds. */
  expiresIn: number
}

export interface OrderFile {
  /** The whole key, as in `storage_key`. */
  path: string
  objectName: string
  /** Bytes. */
  length: number
  lastChanged: string
  source: 'email' | 'manual'
}

export interface FileListing {
  files: OrderFile[]
  /** False where no storage is set up; presign then answers 409. */
  configured: boolean
  /** There are more files than `files` holds. */
  truncated: boolean
}
