import type { IntegrationsFile } from '../operation/copies/seed/integrations-file.ts'
import { companyPrefix } from '../resources/files/keys.ts'
import { listObjects, StorageError, type StorageProblem } from '../resources/files/s3.ts'
import { CommandError } from './command.ts'

/** What the error codes of storages mean for the seed file (S3 API reference, "Error responses"), and our own. */
const PROBLEMS: Record<StorageProblem, string> & Record<string, string> = {
  NoSuchBucket: 'the bucket does not exist',
  InvalidBucketName: 'the name of the bucket is not valid',
  InvalidAccessKeyId: 'the access key id is unknown',
  SignatureDoesNotMatch: 'the secret access key does not fit the access key id',
  AccessDenied: 'the keys may not list the bucket',
  AuthorizationHeaderMalformed: 'the region is not the one of the storage',
  PermanentRedirect: 'the bucket is in another region: use the endpoint of that region',
  TemporaryRedirect: 'the bucket is in another region: use the endpoint of that region',
  RequestTimeTooSkewed: 'the clock of this machine differs from that of the storage',
  timeout: 'it did not respond in time',
  network: 'it cannot be reached',
  address: 'its endpoint must be an https address that resolves to public addresses only',
  malformed: 'its response is not a list of objects: is the endpoint the one of its S3 API?',
  refused: 'it refused the listing',
}

/**
 * Makes one signed listing of at most one object of the company.
 *
 * @throws CommandError with the problem
 */
export async function checkStorage(
  given: NonNullable<IntegrationsFile['storage']>,
  companyId: number,
  now: number,
): Promise<void> {
  const { base_url, bucket, region, addressing, credentials } = given
  const { access_key_id: accessKeyId = '', secret_access_key: secretAccessKey = '' } = credentials
  // On loopback too: whether the service may call it is the service's to say.
  const addresses = { resolver: process.env.WEBHOOK_RESOLVER, allowsLoopback: true }
  const target = { endpoint: base_url, region, addressing, name: bucket, accessKeyId, secretAccessKey, addresses }
  try {
    await listObjects(target, now, companyPrefix(companyId), 1)
  } catch (error) {
    if (!(error instanceof StorageError)) throw error
    const { problem, status, code } = error
    const shown = code ?? (status !== null && `HTTP ${status}`)
    throw new CommandError(`storage: ${PROBLEMS[code ?? ''] ?? PROBLEMS[problem]}${shown ? ` (${shown})` : ''}.`)
  }
}
