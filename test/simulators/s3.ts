import { createHash, createHmac } from 'node:crypto'
import { type Answer, type Call, type Simulator, startSimulator } from './kit.ts'
import { S3_KEYS, S3_REGION } from './s3-keys.ts'

const PAGE_SIZE = 1_000
const NO_BODY = 'UNSIGNED-PAYLOAD'

interface StoredObject {
  key: string
  size: number
  /** ISO 8601. */
  lastModified: string
}

interface State {
  objects: StoredObject[]
  /** Writes a space as `+`, as the best known storages do; else `%20`. */
  formEncoding: boolean
}

/**
 * An S3-compatible storage that lists. It checks signatures by itself (AWS Signature Version 4, header form), from what
 * arrived. The bucket must be named as the scope, because the scope is part of the signed path.
 *
 * `PUT /BUCKET` with `{ objects, formEncoding }`, unsigned, fills it.
 */
export function startS3(port?: number): Promise<Simulator> {
  return startSimulator<State>(() => ({ objects: [], formEncoding: false }), answer, port)
}

function answer(call: Call, state: State): Answer {
  const [path = '', query = ''] = call.path.split('?')
  if (call.method === 'PUT') {
    Object.assign(state, JSON.parse(call.body))
    return { status: 200, body: '' }
  }
  const bucket = decodeURIComponent(path.slice(1))
  if (!isSigned(call, `/t/${bucket}${path}`, query)) return failure(403, 'SignatureDoesNotMatch')
  const params = new Map(
    query.split('&').map((pair) => {
      const [name = '', value = ''] = pair.split('=')
      return [decodeURIComponent(name), decodeURIComponent(value)]
    }),
  )
  if (params.get('list-type') !== '2' || params.get('encoding-type') !== 'url') return failure(501, 'NotImplemented')
  return list(state, params)
}

function list(state: State, params: Map<string, string>): Answer {
  const after = Buffer.from(params.get('continuation-token') ?? '', 'base64').toString()
  const size = Math.min(Number(params.get('max-keys') ?? PAGE_SIZE), PAGE_SIZE)
  const rest = state.objects
    .filter(({ key }) => key.startsWith(params.get('prefix') ?? '') && key > after)
    .sort((a, b) => (a.key < b.key ? -1 : 1))
  const page = rest.slice(0, size)
  const isTruncated = rest.length > page.length
  const encode = (key: string) => {
    const encoded = encodeURIComponent(key).replaceAll('%2F', '/')
    return state.formEncoding ? encoded.replaceAll('%20', '+') : encoded
  }
  const contents = page.map(
    ({ key, size, lastModified }) =>
      `<Contents><Key>${encode(key)}</Key><LastModified>${lastModified}</LastModified><ETag>&quot;0&quot;</ETag>` +
      `<Size>${size}</Size><Owner><ID>1</ID></Owner><StorageClass>STANDARD</StorageClass></Contents>`,
  )
  const next = isTruncated
    ? `<NextContinuationToken>${Buffer.from(page.at(-1)?.key ?? '').toString('base64')}</NextContinuationToken>`
    : ''
  return xml(
    200,
    `<ListBucketResult xmlns="http://storage.test/doc/"><Name>b</Name><EncodingType>url</EncodingType>` +
      `<KeyCount>${page.length}</KeyCount><IsTruncated>${isTruncated}</IsTruncated>${next}${contents.join('\n')}</ListBucketResult>`,
  )
}

function isSigned({ method, headers }: Call, path: string, query: string): boolean {
  const parts = /^AWS4-HMAC-SHA256 Credential=([^,]+), SignedHeaders=([^,]+), Signature=([0-9a-f]{64})$/.exec(
    headers.authorization ?? '',
  )
  const [, credential = '', signedHeaders = '', signature] = parts ?? []
  const [accessKeyId, day = '', region = '', service = '', end = ''] = credential.split('/')
  const time = String(headers['x-amz-date'])
  const isOurs =
    accessKeyId === S3_KEYS.access_key_id && region === S3_REGION && service === 's3' && end === 'aws4_request'
  if (!isOurs || !time.startsWith(day) || headers['x-amz-content-sha256'] !== NO_BODY) return false
  const names = signedHeaders.split(';')
  if (!names.includes('host') || !names.includes('x-amz-date')) return false

  const request = [
    method,
    path,
    query.split('&').sort().join('&'),
    ...names.map((name) => `${name}:${headers[name]}`),
    '',
    signedHeaders,
    NO_BODY,
  ].join('\n')
  const hash = createHash('sha256').update(request).digest('hex')
  const scope = [day, region, service, end]
  const key = scope.reduce<Buffer>(
    (secret, part) => createHmac('sha256', secret).update(part).digest(),
    Buffer.from(`AWS4${S3_KEYS.secret_access_key}`),
  )
  const text = ['AWS4-HMAC-SHA256', time, scope.join('/'), hash].join('\n')
  return createHmac('sha256', key).update(text).digest('hex') === signature
}

function failure(status: number, code: string): Answer {
  return xml(status, `<Error><Code>${code}</Code><Message>${code}</Message></Error>`)
}

function xml(status: number, body: string): Answer {
  const headers = { 'content-type': 'application/xml' }
  return { status, headers, body: `<?xml version="1.0" encoding="UTF-8"?>\n${body}` }
}
