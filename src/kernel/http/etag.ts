import { hash } from 'node:crypto'
import { invalid } from './errors.ts'

/** The entity tags of an `If-None-Match`, without `W/` since the comparison is weak; `*` matches every one. */
export function etagsOf(ifNoneMatch: string | null): string[] | '*' {
  if (ifNoneMatch === null) return []
  if (ifNoneMatch.trim() === '*') return '*'
  return Array.from(ifNoneMatch.slice(0, MAX_LENGTH).matchAll(ETAG), ([, tag = '']) => tag)
}

const MAX_LENGTH = 8_192

/** RFC 9110, 8.8.3: quotes around anything but a quote, spaces and control characters. */
const ETAG = /(?:^|[\s,])(?:W\/)?("[\x21\x23-\x7e\x80-\xff]*")/g

/**
 * The versions that an `If-Match` names, as JSON; null where any will do. A tag begins with the version, which is compared
 * whatever follows it. A weak tag matches none (RFC 9110, 13.1.1).
 *
 * @throws ApiError 400 for what is no list of entity tags
 */
export function versionsOf(ifMatch: string | null): string | null {
  if (ifMatch === null || ifMatch.trim() === '*') return null
  if (!/^[\s,]*$/.test(ifMatch.replaceAll(ETAG, ''))) {
    throw invalid([{ path: 'If-Match', message: 'must be `*` or versions in double quotes, as in `If-Match: "1"`' }])
  }
  return JSON.stringify(Array.from(ifMatch.slice(0, MAX_LENGTH).matchAll(VERSION), ([, version]) => Number(version)))
}

const VERSION = /(?<=^|[\s,])"(\d{1,15})(?:-[0-9a-f]*)?"/g

/** The tag of a version, for responses to changes. */
export function versionTag(version: number): string {
  return `"${version}"`
}

/** 200 with an `ETag` of the version and the bytes, or 304 where `If-None-Match` has it. */
export function taggedResponse(
  body: unknown,
  version: number,
  { headers, ifNoneMatch }: { headers: Record<string, string>; ifNoneMatch: string | null },
): Response {
  const text = JSON.stringify(body)
  const etag = `"${version}-${hash('sha256', text).slice(0, 16)}"`
  const known = etagsOf(ifNoneMatch)
  const isKnown = known === '*' || known.includes(etag)
  const tagged = { ...headers, ETag: etag }
  if (isKnown) return new Response(null, { status: 304, headers: tagged })
  return new Response(text, { headers: { ...tagged, 'Content-Type': 'application/json' } })
}

/**
 * Headers of a response with a version: its tag stays strong, since nothing compresses it. Cloudflare weakens the tag of what
 * it compresses and obeys `no-transform`; the local runtime compresses what names no coding.
 */
export const UNCOMPRESSED = { 'Cache-Control': 'private, no-store, no-transform', 'Content-Encoding': 'identity' }

/**
 * Of a large response without a version, which is compressed in transit: where the caller accepts a coding the tag is
 * weak, since only the uncompressed bytes are the same (RFC 9110, 8.8.3.3).
 */
export function weakenEtag(headers: Headers, acceptEncoding = ''): void {
  headers.append('Vary', 'Accept-Encoding')
  const acceptsCoding = acceptEncoding.split(',').some((coding) => !/^\s*(identity\b|$)/i.test(coding))
  const etag = headers.get('ETag')
  if (acceptsCoding && etag?.startsWith('"')) headers.set('ETag', `W/${etag}`)
}
