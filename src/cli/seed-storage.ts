import { companyPrefix } from '../files/keys.ts'
import { type Bucket, listObjects, regionOfHost, StorageError, type StorageProblem } from '../files/s3.ts'
import { CommandError } from './command.ts'

/** The storage of a seed file, as it is written. */
export interface StorageInput {
  endpoint: string
  bucket: string
  region?: string | undefined
  addressing?: 'path' | 'virtual' | undefined
}

/** What must be a host label beside the endpoint's, which a certificate for `*.HOST` covers: no dots, no upper case. */
const BUCKET_LABEL = /^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$/
const IP_ADDRESS = /^(\[.*\]|[\d.]+)$/

/**
 * The storage with what its endpoint's host implies: the region, and the bucket where it stands before the host.
 *
 * @param report called with what is wrong with a field
 */
export function resolveStorage(
  { endpoint, bucket, region: given, addressing }: StorageInput,
  report: (field: keyof StorageInput, message: string) => void = () => {},
): Pick<Bucket, 'endpoint' | 'region' | 'addressing'> {
  const url = new URL(endpoint)
  const isBucketInHost = url.hostname.startsWith(`${bucket}.`)
  if (isBucketInHost) url.hostname = url.hostname.slice(bucket.length + 1)

  const hostRegion = regionOfHost(url.hostname)
  const region = given ?? hostRegion
  if (region === null) report('region', 'is required: it is known for hosts of R2 and of amazonaws.com only')
  if (region === 'auto' && hostRegion !== null && hostRegion !== 'auto') {
    report('region', 'auto is a region of R2 only; leave it out to take it from the host')
  }
  const style = addressing ?? (isBucketInHost ? 'virtual' : 'path')
  if (style === 'virtual' && !BUCKET_LABEL.test(bucket)) {
    report('bucket', 'must be 3 to 63 of a-z, 0-9 and - for virtual addressing')
  }
  if (style === 'virtual' && IP_ADDRESS.test(url.hostname)) {
    report('addressing', 'virtual needs an endpoint whose host is a name')
  }
  return { endpoint: isBucketInHost ? url.href : endpoint, region: region ?? '', addressing: style }
}

/** What the storages' own error codes mean for whoever wrote the file (S3 API reference, "Error responses"). */
const CODES: Record<string, string> = {
  NoSuchBucket: 'the bucket does not exist',
  InvalidBucketName: 'the bucket has no valid name',
  InvalidAccessKeyId: 'the access key id is unknown',
  SignatureDoesNotMatch: 'the secret access key does not fit the access key id',
  AccessDenied: 'the keys may not list the bucket',
  AuthorizationHeaderMalformed: 'the region is not the one of the storage',
  PermanentRedirect: 'the bucket is in another region: use the endpoint of that region',
  TemporaryRedirect: 'the bucket is in another region: use the endpoint of that region',
  RequestTimeTooSkewed: 'the clock of this machine differs from that of the storage',
}

const PROBLEMS: Record<StorageProblem, string> = {
  timeout: 'it did not respond in time',
  network: 'it cannot be reached',
  malformed: 'its response is not a list of objects: is the endpoint the one of its S3 API?',
  refused: 'it refused the listing',
}

/**
 * Makes one signed listing, of at most one object of the company.
 *
 * @throws CommandError with what is wrong
 */
export async function checkStorage(
  storage: StorageInput & { credentials: Record<string, string> },
  companyId: number,
  now: number,
): Promise<void> {
  const bucket = {
    ...resolveStorage(storage),
    name: storage.bucket,
    accessKeyId: storage.credentials.access_key_id ?? '',
    secretAccessKey: storage.credentials.secret_access_key ?? '',
  }
  try {
    await listObjects(bucket, now, companyPrefix(companyId), 1)
  } catch (error) {
    if (!(error instanceof StorageError)) throw error
    const { problem, status, code } = error
    const what = (code !== null && CODES[code]) || PROBLEMS[problem]
    const shown = code ?? (status !== null && `HTTP ${status}`)
    throw new CommandError(`storage: ${what}${shown ? ` (${shown})` : ''}.`)
  }
}
