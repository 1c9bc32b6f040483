export const MAX_NAME_BYTES = 255
export const MAX_KEY_BYTES = 1_024

/** A mailbox's thread id. It is one segment of a key, so it contains no slash and is never `.` or `..`. */
export const LEGACY_THREAD_ID = /^(?!\.+$)[A-Za-z0-9_:.=+-]{1,255}$/

/** The last segment of a file's key: its name without folders and control characters, in NFC. Different names stay so. */
export function baseNameOf(fileName: string): string {
  return objectNameOf(fileName.replaceAll('\\', '/'))
    .replace(/\p{Cc}/gu, '')
    .normalize('NFC')
}

export function companyPrefix(companyId: number): string {
  return `orders/${companyId}/`
}

/** The prefix of an order's keys, or of one of its threads. The final slash separates order 1 from order 12. */
export function keyPrefix(companyId: number, orderId: number, legacyThreadId?: string): string {
  const order = `${companyPrefix(companyId)}${orderId}/`
  return legacyThreadId === undefined ? order : `${order}email/${legacyThreadId}/`
}

/** Segments `.` and `..` are refused: URLs drop them, so they would name another key. */
export function isBelow(prefix: string, key: string): boolean {
  const isRelative = key.split('/').some((segment) => segment === '.' || segment === '..')
  return key.startsWith(prefix) && key.length > prefix.length && !isRelative
}

export function objectNameOf(key: string): string {
  return key.slice(key.lastIndexOf('/') + 1)
}

/**
 * The `Content-Disposition` that saves a response under this name (RFC 6266): in ASCII, and as a whole in `filename*`
 * (RFC 8187) where that differs.
 */
export function attachmentNamed(name: string): string {
  if (name === '') return 'attachment'
  const ascii = name.replace(/[^\x20-\x7e]|["\\%]/gu, '_')
  return `attachment; filename="${ascii}"${ascii === name ? '' : `; filename*=UTF-8''${encodeStrictly(name)}`}`
}

/** A key with `/email/` belongs to a file that came with a mail thread. */
export function sourceOf(key: string): 'email' | 'manual' {
  return key.includes('/email/') ? 'email' : 'manual'
}

/** Encodes a key for a URL: everything but slashes and RFC 3986's unreserved characters. */
export function encodeKey(key: string): string {
  return key.split('/').map(encodeStrictly).join('/')
}

/** Percent-encoding of Signature Version 4: `encodeURIComponent`, and `! ' ( ) *` as well. */
export function encodeStrictly(text: string): string {
  const encodeMark = (character: string) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`
  return encodeURIComponent(text).replace(/[!'()*]/g, encodeMark)
}
