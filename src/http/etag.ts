/** The entity tags of an `If-None-Match`, without `W/` since the comparison is weak; `*` matches every one. */
export function etagsOf(ifNoneMatch: string | null): string[] | '*' {
  if (ifNoneMatch === null) return []
  if (ifNoneMatch.trim() === '*') return '*'
  return Array.from(ifNoneMatch.slice(0, MAX_LENGTH).matchAll(ETAG), ([, tag = '']) => tag)
}

const MAX_LENGTH = 8_192

/** RFC 9110, 8.8.3: quotes around anything but a quote, spaces and control characters. */
const ETAG = /(?:^|[\s,])(?:W\/)?("[\x21\x23-\x7e\x80-\xff]*")/g
