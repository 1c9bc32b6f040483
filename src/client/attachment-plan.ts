import { isRecord } from './errors.ts'
import type { Attachment, Message, OrderFile, ThreadContext } from './mail-types.ts'

/** 150 MiB. */
export const MAX_FILE_BYTES = 157_286_400

const MAX_NAME_BYTES = 255
const MAX_EXTENSION_LENGTH = 20

export type SkipReason = 'no_context' | 'no_orders' | 'several_orders' | 'storage_not_configured'

/** Where an attachment stands in the thread, and what tells it from every other one. */
export interface Place {
  messageIndex: number
  attachmentIndex: number
  message: Message
  attachment: Attachment
  /** As the API makes it of the filename; null where none can be made. */
  baseName: string | null
  storageKey: string | null
  /** Message and mailbox id; null for an attachment without a mailbox id. */
  idKey: string | null
  /** Message, name, and a number among equal ones: does not change when other messages come or go. */
  nameKey: string
}

export type Plan =
  | { place: Place; action: 'keep'; storageKey: string }
  | { place: Place; action: 'upload'; fileName: string }
  | { place: Place; action: 'too_large'; sizeBytes: number }
  | { place: Place; action: 'nameless' }

/**
 * The order that a thread's attachments belong to: the selected one, else the only one.
 * A selection counts even where `orders_data` is empty.
 */
export function chooseOrder(
  context: Pick<ThreadContext, 'selected_order_id' | 'orders_data'>,
): { orderId: string } | { reason: SkipReason } {
  const selected = toId(context.selected_order_id)
  if (selected !== null) return { orderId: selected }
  const orders: unknown[] = Array.isArray(context.orders_data) ? context.orders_data : []
  if (orders.length > 1) return { reason: 'several_orders' }
  const only = orders[0]
  const orderId = isRecord(only) ? toId(only.id) : null
  return orderId === null ? { reason: 'no_orders' } : { orderId }
}

/**
 * Decides for each attachment of a thread what is to be done, from what is stored already.
 *
 * Kept: its storage key, or that of its equal in the stored thread, is among the listed files of the order.
 * Equal: same message, and same `mail_attachment_id` where both have one, else the same filename.
 *
 * The API's key ends in the base name, so two attachments of one name would share one object. The first that needs
 * a place takes the plain name; another gets `name~hash.ext`, the hash made of its own message and name only. A name
 * whose object belongs to a stored attachment, of this thread or of its stored state, is never given to another one.
 * The same input gives the same names, so that a run after a crash writes the same keys.
 */
export function planAttachments(messages: Message[], storedMessages: Message[], files: OrderFile[]): Plan[] {
  const places = findPlaces(messages)
  const storedPlaces = findPlaces(storedMessages)
  const listed = new Set(files.map((file) => file.path))
  const findStored = indexStored(storedPlaces)
  const isListed = (key: string | null | undefined): key is string => typeof key === 'string' && listed.has(key)
  const keyOf = (place: Place): string | null =>
    [place.storageKey, findStored(place)?.storageKey].find(isListed) ?? null

  // One key on two attachments is the work of an uploader that let them overwrite each other: neither is trusted.
  const shared = findRepeated(places.flatMap((place) => keyOf(place) ?? []))
  const sharedStored = findRepeated(storedPlaces.flatMap((place) => place.storageKey ?? []))
  const isOwn = (key: string | null): key is string => isListed(key) && !shared.has(key) && !sharedStored.has(key)

  const owners = new Map<string, string>()
  for (const place of storedPlaces) {
    if (isOwn(place.storageKey)) owners.set(lastPart(place.storageKey), place.nameKey)
  }
  for (const place of places) {
    const key = keyOf(place)
    if (isOwn(key)) owners.set(lastPart(key), place.nameKey)
  }

  return places.map((place): Plan => {
    const key = keyOf(place)
    if (isOwn(key)) return { place, action: 'keep', storageKey: key }
    if (place.baseName === null) return { place, action: 'nameless' }
    const sizeBytes = place.attachment.size_bytes
    if (typeof sizeBytes === 'number' && sizeBytes > MAX_FILE_BYTES) return { place, action: 'too_large', sizeBytes }
    const fileName = chooseName(place.baseName, place.nameKey, owners)
    owners.set(fileName, place.nameKey)
    return { place, action: 'upload', fileName }
  })
}

/**
 * The thread's messages with keys set; the input is left as it is. An attachment without a new key keeps its own,
 * else that of its equal in the stored thread: what was stored once is not lost when a later upload fails.
 */
export function withStorageKeys(messages: Message[], storedMessages: Message[], keys: Map<string, string>): Message[] {
  const findStored = indexStored(findPlaces(storedMessages))
  const found = new Map<string, string>()
  for (const place of findPlaces(messages)) {
    const key = keys.get(place.nameKey) ?? place.storageKey ?? findStored(place)?.storageKey ?? null
    if (key !== null) found.set(`${place.messageIndex}/${place.attachmentIndex}`, key)
  }
  return messages.map((message, messageIndex) => {
    if (!Array.isArray(message.attachments)) return message
    const attachments = message.attachments.map((attachment, attachmentIndex) => {
      const key = found.get(`${messageIndex}/${attachmentIndex}`)
      return key === undefined ? attachment : { ...attachment, storage_key: key }
    })
    return { ...message, attachments }
  })
}

/** What the API makes of a filename: the part behind the last slash of either kind, NFC, no control characters. */
export function toBaseName(filename: unknown): string | null {
  if (typeof filename !== 'string') return null
  const name = lastPart(filename.replaceAll('\\', '/'))
    .replace(/\p{Cc}/gu, '')
    .normalize('NFC')
  return name.trim() === '' || name === '.' || name === '..' ? null : name
}

/** The mime type as it may stand in a header, or undefined for the API's default. */
export function toContentType(mimeType: unknown): string | undefined {
  if (typeof mimeType !== 'string') return undefined
  const text = mimeType.trim()
  return text.length <= 255 && /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+( *;[\x20-\x7e]*)?$/.test(text) ? text : undefined
}

/** All storage keys that a thread's attachments carry. */
export function listStorageKeys(messages: Message[]): string[] {
  return findPlaces(messages).flatMap((place) => place.storageKey ?? [])
}

function findPlaces(messages: Message[]): Place[] {
  const counts = new Map<string, number>()
  return messages.flatMap((message, messageIndex) => {
    const attachments: unknown[] = Array.isArray(message.attachments) ? message.attachments : []
    return attachments.flatMap((attachment, attachmentIndex): Place[] => {
      if (!isRecord(attachment)) return []
      const mailId = toId(attachment.mail_attachment_id)
      const messageId = toId(message.id)
      const baseName = toBaseName(attachment.filename)
      const group = JSON.stringify([messageId ?? (mailId === null ? messageIndex : { mailId }), baseName])
      const count = counts.get(group) ?? 0
      counts.set(group, count + 1)
      return [
        {
          messageIndex,
          attachmentIndex,
          message,
          attachment,
          baseName,
          storageKey: toId(attachment.storage_key),
          idKey: mailId === null ? null : JSON.stringify([messageId, mailId]),
          nameKey: `${group}${count}`,
        },
      ]
    })
  })
}

/** Messages are immutable in a mailbox, so an equal attachment is looked for in the same message only. */
function indexStored(storedPlaces: Place[]): (place: Place) => Place | undefined {
  const byId = new Map(storedPlaces.map((place) => [place.idKey, place]))
  const byName = new Map(storedPlaces.map((place) => [place.nameKey, place]))
  return (place) => {
    const sameId = place.idKey === null ? undefined : byId.get(place.idKey)
    const sameName = byName.get(place.nameKey)
    const bothHaveIds = place.idKey !== null && sameName !== undefined && sameName.idKey !== null
    return sameId ?? (bothHaveIds ? undefined : sameName)
  }
}

function chooseName(baseName: string, nameKey: string, owners: Map<string, string>): string {
  const isFree = (name: string) => (owners.get(name) ?? nameKey) === nameKey
  if (isFree(baseName) && byteLength(baseName) <= MAX_NAME_BYTES) return baseName
  for (let salt = 0; ; salt += 1) {
    const name = markName(baseName, hash(`${nameKey}${salt || ''}`))
    if (isFree(name)) return name
  }
}

/** `logo.png` → `logo~1a2b3c4d.png`, the stem cut to whole characters so that all fits into a key's part. */
function markName(name: string, mark: string): string {
  const dot = name.lastIndexOf('.')
  const hasExtension = dot > 0 && name.length - dot <= MAX_EXTENSION_LENGTH
  const end = `~${mark}${hasExtension ? name.slice(dot) : ''}`
  const stem = hasExtension ? name.slice(0, dot) : name
  const { read } = new TextEncoder().encodeInto(stem, new Uint8Array(MAX_NAME_BYTES - byteLength(end)))
  return stem.slice(0, read) + end
}

/** 32-bit FNV-1a over UTF-16 units, in hex: short and the same everywhere. A collision only costs another salt. */
function hash(text: string): string {
  let value = 0x811c9dc5
  for (let index = 0; index < text.length; index += 1) value = Math.imul(value ^ text.charCodeAt(index), 0x01000193)
  return (value >>> 0).toString(16).padStart(8, '0')
}

function findRepeated(values: string[]): Set<string> {
  const seen = new Set<string>()
  return new Set(values.filter((value) => seen.has(value) || !seen.add(value)))
}

function byteLength(text: string): number {
  return new TextEncoder().encode(text).length
}

function lastPart(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1)
}

function toId(value: unknown): string | null {
  const text = typeof value === 'string' || typeof value === 'number' ? String(value).trim() : ''
  return text === '' ? null : text
}
