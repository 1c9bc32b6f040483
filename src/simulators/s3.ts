import { createHash, createHmac } from 'node:crypto'
import { type Call, type SimulatedResponse, type Simulator, startSimulator } from './kit.ts'
import { S3_KEYS, S3_REGION } from './s3-keys.ts'

const PAGE_SIZE = 1_000
const NO_BODY = 'UNSIGNED-PAYLOAD'
const LONGEST_SKEW_MS = 15 * 60_000

interface StoredObject {
  key: string
  size: number
  /** ISO 8601. */
  lastModified: string
  /** Left out: it has no type. */
  contentType?: string
}

interface Bucket {
  objects: StoredObject[]
  /** Writes a space as `+`, as the best known storages do; else `%20`. */
  formEncoding: boolean
  /** The only region that its requests may be signed for. */
  region: string
  /** Keys on a page, whatever is requested. */
  pageSize: number
}

type State = Record<string, Bucket>

/**
 * An S3-compatible storage that lists, and reads and deletes single objects, whose bytes are all `x`. As strict as the
 * real ones: it checks signatures by itself (AWS Signature Version 4, in headers or in the query) from what arrived, with
 * the key, the region and the date of their scope, and refuses what does not fit with the code that S3 documents. Buckets
 * are addressed by path, or as the first label of a host below `localhost`.
 *
 * `PUT /BUCKET` with the fields of {@link Bucket}, unsigned, makes it, with defaults for what is left out.
 */
export function startS3(port?: number): Promise<Simulator> {
  return startSimulator<State>(() => ({}), handle, port)
}

function handle(call: Call, state: State): SimulatedResponse {
  const [path = '', query = ''] = call.path.split('?')
  const [, label] = /^(.+)\.localhost(?::\d+)?$/.exec(call.headers.host ?? '') ?? []
  const [, name = '', rest = ''] = label === undefined ? (/^\/([^/]*)(.*)$/.exec(path) ?? []) : ['', label, path]
  if (call.method === 'PUT') {
    state[name] = { objects: [], formEncoding: false, region: S3_REGION, pageSize: PAGE_SIZE, ...JSON.parse(call.body) }
    return { status: 200, body: '' }
  }
  const bucket = state[decodeURIComponent(name)]
  const refusal = checkSignature(call, bucket?.region ?? S3_REGION)
  if (refusal) return refusal
  if (!bucket) return failure(404, 'NoSuchBucket')
  const params = paramsOf(query)
  if (rest !== '' && rest !== '/') return handleObject(call.method, bucket, decodeURIComponent(rest.slice(1)), params)
  if (params.get('list-type') !== '2' || params.get('encoding-type') !== 'url') return failure(501, 'NotImplemented')
  return list(bucket, params)
}

function paramsOf(query: string): Map<string, string> {
  const pairs = query.split('&').map((pair) => pair.split('=').map(decodeURIComponent))
  return new Map(pairs.map(([name = '', value = '']) => [name, value]))
}

function handleObject(method: string, bucket: Bucket, key: string, params: Map<string, string>): SimulatedResponse {
  const object = bucket.objects.find((candidate) => candidate.key === key)
  if (method === 'DELETE') {
    bucket.objects = bucket.objects.filter((other) => other !== object)
    return { status: 204, body: '' }
  }
  if (!object) return failure(404, 'NoSuchKey')
  const disposition = params.get('response-content-disposition')
  const headers = {
    'content-type': object.contentType ?? 'binary/octet-stream',
    'last-modified': new Date(object.lastModified).toUTCString(),
    ...(disposition !== undefined && { 'content-disposition': disposition }),
  }
  return { status: 200, headers, body: 'x'.repeat(object.size) }
}

function list(bucket: Bucket, params: Map<string, string>): SimulatedResponse {
  const after = Buffer.from(params.get('continuation-token') ?? '', 'base64').toString()
  const size = bucket.pageSize > PAGE_SIZE ? bucket.pageSize : Math.min(Number(params.get('max-keys')), bucket.pageSize)
  const rest = bucket.objects
    .filter(({ key }) => key.startsWith(params.get('prefix') ?? '') && key > after)
    .sort((a, b) => (a.key < b.key ? -1 : 1))
  const page = rest.slice(0, size)
  const isTruncated = rest.length > page.length
  const encode = (key: string) => {
    const encoded = encodeURIComponent(key).replaceAll('%2F', '/')
    return bucket.formEncoding ? encoded.replaceAll('%20', '+') : encoded
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

/** What is signed and by whom, wherever the request carries it; undefined without a signature. */
function readSignature({ headers, url }: Call) {
  const parts = /^AWS4-HMAC-SHA256 Credential=([^,]+), SignedHeaders=([^,]+), Signature=([0-9a-f]{64})$/.exec(
    headers.authorization ?? '',
  )
  if (parts) {
    const [, credential = '', signedHeaders = '', signature = ''] = parts
    const isUnsigned = headers['x-amz-content-sha256'] === NO_BODY
    const required = ['host', 'x-amz-date', 'x-amz-content-sha256']
    const expiresMs = LONGEST_SKEW_MS
    const time = String(headers['x-amz-date'])
    return { credential, signedHeaders, signature, time, expiresMs, required, isUnsigned }
  }
  const params = paramsOf(url.split('?')[1] ?? '')
  const [credential, signedHeaders, signature, time, expires] = SIGNED_PARAMETERS.map((name) => params.get(name))
  if (!credential || !signedHeaders || !signature || !time || !expires) return undefined
  const expiresMs = Number(expires) * 1_000
  return { credential, signedHeaders, signature, time, expiresMs, required: ['host'], isUnsigned: true }
}

const SIGNED_PARAMETERS = ['Credential', 'SignedHeaders', 'Signature', 'Date', 'Expires'].map((name) => `X-Amz-${name}`)

/** S3's error for a request whose signature is wrong, or null. */
function checkSignature(call: Call, wantedRegion: string): SimulatedResponse | null {
  const found = readSignature(call)
  if (!found) return failure(403, 'AccessDenied')
  const { credential, signedHeaders, signature, time, expiresMs, required, isUnsigned } = found
  const [accessKeyId, day = '', region = '', service = '', end = ''] = credential.split('/')
  if (accessKeyId !== S3_KEYS.access_key_id) return failure(403, 'InvalidAccessKeyId')
  if (region !== wantedRegion || service !== 's3' || end !== 'aws4_request' || !time.startsWith(day)) {
    return failure(400, 'AuthorizationHeaderMalformed')
  }
  const sentAt = Date.parse(time.replace(/^(....)(..)(..)T(..)(..)(..)Z$/, '$1-$2-$3T$4:$5:$6Z'))
  if (!(Date.now() - sentAt <= expiresMs && sentAt - Date.now() <= LONGEST_SKEW_MS)) {
    return failure(403, 'RequestTimeTooSkewed')
  }
  const names = signedHeaders.split(';')
  if (!isUnsigned || !required.every((name) => names.includes(name))) return failure(403, 'AccessDenied')
  const others = Object.keys(call.headers).filter((name) => name.startsWith('x-amz-') && !names.includes(name))
  if (others.length > 0) return failure(403, 'AccessDenied')

  const [path = '', query = ''] = call.url.split('?')
  const signed = query.split('&').filter((pair) => !pair.startsWith('X-Amz-Signature='))
  const request = [
    call.method,
    path,
    signed.sort().join('&'),
    ...names.map((name) => `${name}:${call.headers[name]}`),
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
  const isRight = createHmac('sha256', key).update(text).digest('hex') === signature
  return isRight ? null : failure(403, 'SignatureDoesNotMatch')
}

function failure(status: number, code: string): SimulatedResponse {
  return xml(status, `<Error><Code>${code}</Code><Message>${code}</Message></Error>`)
}

function xml(status: number, body: string): SimulatedResponse {
  const headers = { 'content-type': 'application/xml' }
  return { status, headers, body: `<?xml version="1.0" encoding="UTF-8"?>\n${body}` }
}
