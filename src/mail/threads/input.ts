import { type Issue, invalid } from '../../http/errors.ts'
import { accountEmail } from './contract.ts'
import { parseDateTime } from './date-time.ts'
import { JsonError, type Kind, type Member, scanObject } from './json-scan.ts'

/** Texts of a thread that are kept and given back as the JSON that was sent. */
export const TEXT_FIELDS = ['mail_thread_id', 'subject', 'snippet', 'mail_history_id'] as const
export type TextField = (typeof TEXT_FIELDS)[number]

const TIME_FIELDS = ['first_message_at', 'last_message_at', 'last_synced_at'] as const
export type TimeField = (typeof TIME_FIELDS)[number]

const ARRAYS = { participants: 'object', labels: 'string', messages: 'object' } as const satisfies Record<string, Kind>
type ArrayField = keyof typeof ARRAYS

/** The arrays of a thread. One that was left out is empty. */
export type Content = Record<ArrayField, Member>

/** An email thread as it was sent. A field that is absent was left out; null was sent as null. */
export interface ThreadInput {
  /** Lower-case. */
  accountEmail: string
  /** JSON text. */
  texts: Partial<Record<TextField, Uint8Array | null>>
  /** Milliseconds since the epoch. */
  times: Partial<Record<TimeField, number | null>>
  content: Content
}

const WANTED: Record<'account_email' | TextField | TimeField | ArrayField, Kind | null> = {
  account_email: null,
  mail_thread_id: null,
  subject: null,
  snippet: null,
  mail_history_id: null,
  first_message_at: null,
  last_message_at: null,
  last_synced_at: null,
  ...ARRAYS,
}

/** No email or date-time is longer; what is, is not even decoded. */
const SHORT_TEXT_BYTES = 4_096

const encoder = new TextEncoder()
const decoder = new TextDecoder()

const LEFT_OUT: Member = { text: encoder.encode('[]'), kind: 'array', count: 0, misfits: [] }
const NAMES = {
  participants: encoder.encode('"participants":'),
  labels: encoder.encode(',"labels":'),
  messages: encoder.encode(',"messages":'),
}

/** JSON text of the three members, in pieces that follow one another. */
export function contentText({ participants, labels, messages }: Content): Uint8Array[] {
  return [NAMES.participants, participants.text, NAMES.labels, labels.text, NAMES.messages, messages.text]
}

/** Bytes of {@link contentText}. */
export function contentBytes(content: Content): number {
  return contentText(content).reduce((bytes, { length }) => bytes + length, 0)
}

/**
 * Reads the body of a PUT without building its values: the arrays and texts stay the bytes that were sent, so that no
 * number, escape or lone surrogate in them changes, and memory does not depend on what they hold.
 *
 * @param bytes UTF-8
 * @param known of an earlier body: an array that stands in this one, too, is taken from there
 * @throws ApiError 400 with every issue's path
 */
export function parseThread(bytes: Uint8Array, known?: Content): ThreadInput {
  const members = scan(bytes, known)
  const issues: Issue[] = []
  const reader = new Reader(members, issues)
  const input: ThreadInput = {
    accountEmail: reader.email(),
    texts: reader.each(TEXT_FIELDS, (member, field) => reader.text(member, field)),
    times: reader.each(TIME_FIELDS, (member, field) => reader.time(member, field)),
    content: {
      participants: reader.array('participants'),
      labels: reader.array('labels'),
      messages: reader.array('messages'),
    },
  }
  if (!members.has('messages')) issues.push({ path: 'messages', message: 'is required: an array of objects' })
  if (issues.length > 0) throw invalid(issues)
  return input
}

type Members = Map<keyof typeof WANTED, Member>

function scan(bytes: Uint8Array, known?: Content): Members {
  let members: Members | null
  try {
    members = scanObject(bytes, WANTED, known)
  } catch (error) {
    if (error instanceof JsonError) throw invalid([{ path: '', message: 'the body is not valid JSON' }])
    throw error
  }
  if (!members) throw invalid([{ path: '', message: 'must be a JSON object' }])
  return members
}

class Reader {
  private readonly members: Members
  private readonly issues: Issue[]

  constructor(members: Members, issues: Issue[]) {
    this.members = members
    this.issues = issues
  }

  email(): string {
    const member = this.members.get('account_email')
    const parsed = accountEmail.safeParse(member && this.shortText(member))
    if (parsed.success) return parsed.data
    const message = member ? 'must be an email address, as a string' : 'is required: the mailbox that was synced'
    this.issues.push({ path: 'account_email', message })
    return ''
  }

  /** The fields that were sent, read. */
  each<Field extends TextField | TimeField, Value>(
    fields: readonly Field[],
    read: (member: Member, field: Field) => Value,
  ): Partial<Record<Field, Value>> {
    const values: Partial<Record<Field, Value>> = {}
    for (const field of fields) {
      const member = this.members.get(field)
      if (member) values[field] = read(member, field)
    }
    return values
  }

  text(member: Member, field: TextField): Uint8Array | null {
    if (member.kind === 'null') return null
    if (member.kind !== 'string') this.issues.push({ path: field, message: 'must be a string or null' })
    return member.text
  }

  time(member: Member, field: TimeField): number | null {
    if (member.kind === 'null') return null
    const ms = parseDateTime(this.shortText(member) ?? '')
    if (ms === null) {
      this.issues.push({ path: field, message: 'must be an ISO 8601 date-time with an offset, or null' })
    }
    return ms
  }

  array(field: ArrayField): Member {
    const member = this.members.get(field)
    if (!member) return LEFT_OUT
    const element = ARRAYS[field] === 'object' ? 'an object' : 'a string'
    if (member.kind !== 'array') this.issues.push({ path: field, message: `must be an array, each element ${element}` })
    for (const index of member.misfits) this.issues.push({ path: `${field}.${index}`, message: `must be ${element}` })
    return member
  }

  private shortText({ kind, text }: Member): string | undefined {
    return kind === 'string' && text.length <= SHORT_TEXT_BYTES ? JSON.parse(decoder.decode(text)) : undefined
  }
}
