import { ApiError, invalid } from './errors.ts'

/** The limit of a JSON body where a contract names none. */
export const BODY_LIMIT_BYTES = 1_048_576

const JSON_MEDIA_TYPE = /^\s*application\/json\s*(;|$)/i

/**
 * Reads a JSON body as text. The limit is counted on the bytes that arrive; what is over it is never held.
 *
 * @throws ApiError 415 for another media type, 413 over the limit, 400 for bytes that are not UTF-8
 */
export async function readJsonText(request: Request, limitBytes: number): Promise<string> {
  if (!JSON_MEDIA_TYPE.test(request.headers.get('content-type') ?? '')) throw new ApiError('unsupported_media_type')
  const tooLarge = () =>
    new ApiError('too_large', {
      message: `The body is larger than ${limitBytes} bytes.`,
      details: { limit_bytes: limitBytes },
    })
  if (Number(request.headers.get('content-length') ?? 0) > limitBytes) throw tooLarge()
  if (!request.body) return ''

  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: false })
  let read = 0
  let text = ''
  try {
    for await (const chunk of request.body) {
      read += chunk.byteLength
      if (read > limitBytes) throw tooLarge()
      text += decoder.decode(chunk, { stream: true })
    }
    return text + decoder.decode()
  } catch (error) {
    if (error instanceof TypeError) throw invalid([{ path: '', message: 'the body is not UTF-8' }])
    throw error
  }
}
