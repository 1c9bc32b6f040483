import { AwsV4Signer } from 'aws4fetch'
import { encodeKey, encodeStrictly } from './keys.ts'
import { EXPIRES_SECONDS } from './storage.ts'

/** A bucket of an S3-compatible storage and the keys to it. */
export interface Bucket {
  /** What stands before `/BUCKET/KEY`, or before `/KEY` where the bucket stands before the host. */
  endpoint: string
  name: string
  region: string
  addressing: 'path' | 'virtual'
  accessKeyId: string
  secretAccessKey: string
}

/** The address of a bucket, or of an object in it: path style, or virtual-host style with the bucket as a host label. */
export function addressOf({ endpoint, name, addressing }: Bucket, key?: string): string {
  const base = endpoint.replace(/(?<!\/)\/+$/, '')
  if (addressing === 'virtual') return `${base.replace('://', () => `://${name}.`)}/${encodeKey(key ?? '')}`
  const address = `${base}/${encodeStrictly(name)}`
  return key === undefined ? address : `${address}/${encodeKey(key)}`
}

/**
 * Signs one PUT by query (AWS Signature Version 4, "authenticating requests: using query parameters"). Content type and
 * length are signed headers, which they are not by default: without that any type and size could be uploaded.
 *
 * @param now milliseconds since the epoch, when the address begins to be valid
 */
export async function presignPut(
  bucket: Bucket,
  key: string,
  contentType: string,
  sizeBytes: number,
  now: number,
): Promise<string> {
  const signer = new AwsV4Signer({
    ...signerOptions(bucket, now),
    method: 'PUT',
    url: `${addressOf(bucket, key)}?X-Amz-Expires=${EXPIRES_SECONDS}`,
    headers: { 'content-type': contentType, 'content-length': String(sizeBytes) },
    signQuery: true,
    allHeaders: true,
  })
  return (await signer.sign()).url.href
}

/**
 * The headers that authenticate a GET (the same, "using the Authorization header").
 *
 * @param url with a query that is encoded strictly, so that it is sent as it is signed
 */
export async function signGet(bucket: Bucket, url: string, now: number): Promise<Headers> {
  return (await new AwsV4Signer({ ...signerOptions(bucket, now), method: 'GET', url }).sign()).headers
}

/** Service and region are named, since the signer guesses them for the hosts that it knows only. */
function signerOptions(bucket: Bucket, now: number) {
  return {
    service: 's3',
    region: bucket.region,
    accessKeyId: bucket.accessKeyId,
    secretAccessKey: bucket.secretAccessKey,
    datetime: new Date(now).toISOString().replace(/[:-]|\.\d{3}/g, ''),
  }
}
