import { isRecord, toWellFormed } from './errors.ts'
import type { Message, OrderFile, ThreadContext } from './types.ts'

/** 150 MiB. */
export const MAX_FILE_BYTES = 157_286_400
const MAX_NAME_BYTES = 255
const MAX_EXTENSION_LENGTH = 20

/** `order_not_found` is that of a deleted order. */
export type SkipReason = 'no_context' | 'no_orders' | 'several_orders' | 'order_not_found' | 'storage_not_configured'

type Place = ReturnType<typeof findPlaces>[number]

/** An attachment as the mail provider describes it, before its upload. */
export type SettledOutcome =
  | { status: 'already_stored'; storageKey: string }
  | { status: 'too_large'; sizeBytes: number }
  | { status: 'nameless' }

/** The name to upload an attachment under, or why not to. `storedKey` is its own earlier key, else that of its match. */
export type Plan = { place: Place; storedKey: string | null } & ({ fileName: string } | { outcome: SettledOutcome })

/** The order that a thread's attachments belong to: the selected one, even of no `orders_data`, else the only one. */
export function chooseOrder(
  context: Pick<ThreadContext, 'selected_order_id' | 'orders_data'>,
): { orderId: string } | { reason: SkipReason } {
  const selected = toId(context.selected_order_id)
  if (selected !== null) return { orderId: selected }
  const [only, ...others]: unknown[] = Array.isArray(context.orders_data) ? context.orders_data : []
  if (others.length > 0) return { reason: 'several_orders' }
  const orderId = isRecord(only) ? toId(only.id) : null
  return orderId === null ? { reason: 'no_orders' } : { orderId }
}

/**
 * Decides for each attachment of a thread what to do. It is stored already when its storage key, or that of its match in
 * the stored thread, is among the order's files. A match has the same message and the same `mail_attachment_id`, or
 * else the same filename, since mailboxes change these ids.
 *
 * The API's key ends in the base name. An attachment takes it unless another attachment or a listed file has it, which may
 * be another mailbox's. Then it takes `name~hash.ext`, with a hash of its account, message and name. Runs that end before
 * the thread is stored leave at most one unused file of each. Two mailboxes of one thread must sync one after the other.
 */
export function planAttachments(messages: Message[], stored: Message[], files: OrderFile[], account: string): Plan[] {
  const places = findPlaces(messages)
  const storedPlaces = findPlaces(stored)
  // Messages are immutable in a mailbox, so a match is searched in the same message only.
  const byId = new Map(storedPlaces.map((place) => [place.idKey, place]))
  const ids = new Set(places.map((place) => place.idKey))
  const hasNoMatch = ({ idKey }: Place) => idKey === null || !ids.has(idKey)
  const byName = new Map(storedPlaces.filter(hasNoMatch).map((place) => [place.nameKey, place]))
  const findStored = ({ idKey, nameKey }: Place) => (idKey === null ? null : byId.get(idKey)) ?? byName.get(nameKey)
  const listed = new Set<string | null | undefined>(files.map((file) => file.path))
  const keyOf = (place: Place): string | null =>
    [place.storageKey, findStored(place)?.storageKey].find((key) => listed.has(key)) ?? null

  // With one key on two attachments, one has overwritten the other: both are uploaded again.
  const keysOf = [places.map(keyOf), storedPlaces.map((place) => place.storageKey)]
  const shared = new Set(keysOf.flatMap((keys) => keys.filter((key, index) => keys.indexOf(key) !== index)))
  const isOwn = (key: string | null): key is string => key !== null && listed.has(key) && !shared.has(key)
  const taken = new Set(keysOf.flat().filter(isOwn).map(lastPart))
  const existing = new Set(files.map((file) => file.objectName))

  return places.map((place): Plan => {
    const { baseName, nameKey, attachment } = place
    const storedKey = place.storageKey ?? findStored(place)?.storageKey ?? null
    const settle = (outcome: SettledOutcome): Plan => ({ place, storedKey, outcome })
    const key = keyOf(place)
    if (isOwn(key)) return settle({ status: 'already_stored', storageKey: key })
    if (baseName === null) return settle({ status: 'nameless' })
    const sizeBytes = attachment.size_bytes
    if (typeof sizeBytes === 'number' && sizeBytes > MAX_FILE_BYTES) return settle({ status: 'too_large', sizeBytes })
    const fileName = chooseName(baseName, account + nameKey, taken, existing)
    taken.add(fileName)
    return { place, storedKey, fileName }
  })
}

/** A copy of the messages with new storage keys, or stored ones: a failed upload does not lose an earlier one's key. */
export function withStorageKeys(messages: Message[], plans: Plan[], newKeys: (string | null)[]): Message[] {
  const copies = messages.map((message) =>
    Array.isArray(message.attachments) ? { ...message, attachments: [...message.attachments] } : message,
  )
  for (const [index, { place, storedKey }] of plans.entries()) {
    const key = newKeys[index] ?? storedKey
    const attachments = copies[place.messageIndex]?.attachments
    if (key !== null && attachments) attachments[place.attachmentIndex] = { ...place.attachment, storage_key: key }
  }
  return copies
}

/**
 * Normalizes a filename as the API does: the part after the last `/` or `\`, in NFC, without control characters. A lone
 * surrogate, which the API rejects, becomes U+FFFD.
 */
export function toBaseName(filename: unknown): string | null {
  if (typeof filename !== 'string') return null
  const wellFormed = toWellFormed(filename)
  const name = lastPart(wellFormed.replaceAll('\\', '/').replace(/\p{Cc}/gu, '')).normalize('NFC')
  return /^(\s*|\.\.?)$/.test(name) ? null : name
}

/** The API's own pattern of a content type. */
const CONTENT_TYPE = /^[A-Za-z0-9][\w!#$&^.+-]{0,126}\/[A-Za-z0-9][\w!#$&^.+-]{0,126}( *;[\x20-\x7e]*)?$/

/** The MIME type if the API accepts it, else undefined for the API's default. */
export function toContentType(mimeType: unknown): string | undefined {
  const text = typeof mimeType === 'string' ? mimeType.trim() : ''
  return text.length <= 255 && CONTENT_TYPE.test(text) ? text : undefined
}

export function listStorageKeys(messages: Message[]): string[] {
  return findPlaces(messages).flatMap((place) => place.storageKey ?? [])
}

function findPlaces(messages: Message[]) {
  const counts = new Map<string, number>()
  const count = (key: string) => {
    const before = counts.get(key) ?? 0
    counts.set(key, before + 1)
    return before
  }
  const places = messages.flatMap((message, messageIndex) => {
    const attachments: unknown[] = Array.isArray(message.attachments) ? message.attachments : []
    return attachments.flatMap((attachment, attachmentIndex) => {
      if (!isRecord(attachment)) return []
      const mailId = toId(attachment.mail_attachment_id)
      const messageId = toId(message.id)
      const baseName = toBaseName(attachment.filename)
      const sentAt = toId(message.sent_at ?? message.internal_date)
      // A message without an id is known by its time: its place changes with every message that comes before it.
      const place = sentAt !== null ? { sentAt } : mailId === null ? messageIndex : { mailId }
      const group = JSON.stringify([messageId ?? place, baseName])
      // Not trimmed: a file's name may end in a space, and so its key.
      const storageKey = toId(attachment.storage_key) === null ? null : String(attachment.storage_key)
      const idKey = mailId === null ? null : JSON.stringify({ messageId, mailId })
      if (idKey !== null) count(idKey)
      // With a number among equal names: unchanged when other messages are added or removed.
      const nameKey = `${group}${count(group)}`
      return [{ messageIndex, attachmentIndex, message, attachment, baseName, storageKey, idKey, nameKey }]
    })
  })
  // An id that several have, such as the number of a part in messages without ids, identifies none of them.
  return places.map((place) => (counts.get(place.idKey ?? '') === 1 ? place : { ...place, idKey: null }))
}

/** The base name or, where it is not free, `logo~….png` with the stem cut at a character boundary to fit a key. */
function chooseName(baseName: string, identity: string, taken: Set<string>, existing: Set<string>): string {
  const encoder = new TextEncoder()
  const isFree = !taken.has(baseName) && !existing.has(baseName)
  if (isFree && encoder.encode(baseName).length <= MAX_NAME_BYTES) return baseName
  const dot = baseName.lastIndexOf('.')
  const stemLength = dot > 0 && baseName.length - dot <= MAX_EXTENSION_LENGTH ? dot : baseName.length
  const stem = baseName.slice(0, stemLength)
  for (let salt = 0; ; salt += 1) {
    const end = `~${hash(`${identity}${salt || ''}`)}${baseName.slice(stemLength)}`
    const { read } = encoder.encodeInto(stem, new Uint8Array(MAX_NAME_BYTES - encoder.encode(end).length))
    const name = stem.slice(0, read) + end
    if (!taken.has(name)) return name
  }
}

/** 64-bit FNV-1a of the UTF-8, in hex. Another mailbox's file of the same name and hash would be overwritten. */
function hash(text: string): string {
  let value = 0xcbf29ce484222325n
  const bytes = new TextEncoder().encode(text)
  for (const byte of bytes) value = BigInt.asUintN(64, (value ^ BigInt(byte)) * 0x100000001b3n)
  return value.toString(16).padStart(16, '0')
}

function lastPart(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1)
}

function toId(value: unknown): string | null {
  const text = typeof value === 'string' || typeof value === 'number' ? String(value).trim() : ''
  return text === '' ? null : text
}
