import { readXml } from '../http/xml.ts'
import { type FilePage, PAGE_SIZE } from './storage.ts'

const MAX_DEPTH = 8

const FIELDS = new Set(['Key', 'Size', 'LastModified'])

/**
 * Reads the response of `ListObjectsV2` (S3 API reference) that was requested with `encoding-type=url`: keys in XML
 * could not hold control characters otherwise.
 *
 * @throws Error when the text is not such a response, or holds more than {@link PAGE_SIZE} objects; the message may
 *   quote it, so it must not be shown or logged
 */
export function readObjectList(xml: string): FilePage {
  const list = new Map<string, string>()
  const objects: Map<string, string>[] = []
  readXml(xml, MAX_DEPTH, {
    open: (path) => {
      if (path.length !== 2 || path[0] !== 'ListBucketResult' || path[1] !== 'Contents') return
      if (objects.push(new Map()) > PAGE_SIZE) throw new Error('more objects than were requested')
    },
    close: ([root, name = '', field, deeper], text) => {
      if (root !== 'ListBucketResult' || deeper !== undefined) return
      if (field === undefined) list.set(name, text)
      else if (name === 'Contents' && FIELDS.has(field)) objects.at(-1)?.set(field, text)
    },
  })

  // An empty response of something else is no empty list.
  if (!list.has('IsTruncated')) throw new Error('not a list of objects')
  const cursor = list.get('IsTruncated') === 'true' ? list.get('NextContinuationToken') : null
  if (cursor === undefined || cursor === '') throw new Error('more objects, and no way to them')
  const isEncoded = list.get('EncodingType') === 'url'
  return { files: objects.map((object) => toFile(object, isEncoded)), cursor }
}

function toFile(object: Map<string, string>, isEncoded: boolean) {
  const key = object.get('Key') ?? ''
  const size = object.get('Size') ?? ''
  const changedAt = Date.parse(object.get('LastModified') ?? '')
  if (key === '' || !/^\d{1,15}$/.test(size) || Number.isNaN(changedAt)) throw new Error('an object without its fields')
  // Form encoding in practice: a space may come as "+", a plus sign never does.
  const decoded = isEncoded ? decodeURIComponent(key.replaceAll('+', ' ')) : key
  return { key: decoded, sizeBytes: Number(size), changedAt }
}

/** The code of a storage's error (S3 API reference, "REST error responses"), null where the text has none of this form. */
export function readErrorCode(xml: string): string | null {
  let code: string | null = null
  try {
    readXml(xml, MAX_DEPTH, {
      open: () => {},
      close: (path, text) => {
        if (path.join('/') === 'Error/Code') code ??= text.trim()
      },
    })
  } catch {
    return null
  }
  return code !== null && /^[A-Za-z0-9]{1,64}$/.test(code) ? code : null
}
