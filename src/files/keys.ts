/** Of a base name, in UTF-8. */
export const MAX_NAME_BYTES = 255

/** A mailbox's thread id: it is one segment of a key, so it is never `.` or `..` and holds no slash. */
export const LEGACY_THREAD_ID = /^(?!\.+$)[A-Za-z0-9_:.=+-]{1,255}$/

/**
 * The last segment of a file's key: what follows the last `/` or `\`, in Unicode NFC, without control characters. Every
 * other character stays, so that two different names never meet in one key.
 *
 * @param fileName well-formed Unicode
 * @returns the name, or why there is none
 */
export function safeBaseName(fileName: string): { name: string } | { problem: string } {
  const start = Math.max(fileName.lastIndexOf('/'), fileName.lastIndexOf('\\')) + 1
  const name = fileName
    .slice(start)
    .replace(/\p{Cc}/gu, '')
    .normalize('NFC')
  if (name.trim() === '' || name === '.' || name === '..') return { problem: 'must end in a name of a file' }
  if (new TextEncoder().encode(name).length > MAX_NAME_BYTES) {
    return { problem: `must end in a name of at most ${MAX_NAME_BYTES} bytes of UTF-8` }
  }
  return { name }
}

/** Below what all files of a company stand. */
export function companyPrefix(companyId: number): string {
  return `orders/${companyId}/`
}

/** Below what an order's files stand, or those of one of its threads. The slash at the end parts order 1 from order 12. */
export function keyPrefix(companyId: number, orderId: number, legacyThreadId?: string): string {
  const order = `${companyPrefix(companyId)}${orderId}/`
  return legacyThreadId === undefined ? order : `${order}email/${legacyThreadId}/`
}

/** The key of a file that came with a mail thread. */
export function emailFileKey(companyId: number, orderId: number, legacyThreadId: string, baseName: string): string {
  return keyPrefix(companyId, orderId, legacyThreadId) + baseName
}

/** A file whose key holds `/email/` came with a mail thread. */
export function sourceOf(key: string): 'email' | 'manual' {
  return key.includes('/email/') ? 'email' : 'manual'
}

/** A key as it stands in an address: what RFC 3986 does not leave unreserved is encoded, the slashes are kept. */
export function encodeKey(key: string): string {
  return key.split('/').map(encodeStrictly).join('/')
}

/** Percent-encoding as Signature Version 4 counts it: `encodeURIComponent`, and `! ' ( ) *` as well. */
export function encodeStrictly(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )
}
