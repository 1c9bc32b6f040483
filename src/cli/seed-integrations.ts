import { existsSync, readFileSync } from 'node:fs'
import { isDeepStrictEqual, parseEnv } from 'node:util'
import { eq } from 'drizzle-orm'
import * as z from 'zod/mini'
import { decryptCredentials, encryptCredentials, usesFirstKey } from '../auth/credentials.ts'
import { integrations } from '../db/schema.ts'
import { companyPrefix } from '../files/keys.ts'
import { listObjects, regionOfHost, StorageError, type StorageProblem } from '../files/s3.ts'
import { oneLine } from '../http/contract.ts'
import { type SupplierName, suppliers } from '../products/suppliers/registry.ts'
import { secret } from '../products/suppliers/supplier.ts'
import { CommandError } from './command.ts'
import type { Orm, Place } from './database.ts'
import { PROJECT_ROOT } from './wrangler.ts'

const LOOPBACK = /^(localhost|127\.\d{1,3}\.\d{1,3}\.\d{1,3}|\[::1\])$/
/** A bucket that can be a label of a host name and is covered by a certificate for `*.HOST`. */
const BUCKET_LABEL = /^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$/
const IP_ADDRESS = /^(\[.*\]|[\d.]+)$/

const address = oneLine(1, 2048).check(
  z.refine((value) => {
    const url = URL.parse(value)
    if (url === null || url.username !== '' || url.password !== '' || url.hash !== '') return false
    return url.protocol === 'https:' || (url.protocol === 'http:' && LOOPBACK.test(url.hostname))
  }, 'must be an https address, or http on a loopback address'),
)

/** A field with the description that the published JSON Schema has for it. */
export function field<T extends z.ZodMiniType>(description: string, schema: T) {
  return schema.check(z.describe(description))
}

/** The id of a customer, an item or a tax code in the accounting system. */
export const accountingId = z.string().check(z.regex(/^[\w-]{1,64}$/, 'must be 1 to 64 letters, digits, _ or -'))

/** An integration. One that is disabled may have no credentials yet. */
function integration<Rest extends z.core.$ZodShape>(credentials: z.ZodMiniType, rest: Rest) {
  const form = z.toJSONSchema(credentials, { io: 'input', override: ({ jsonSchema }) => delete jsonSchema.$schema })
  const common = {
    enabled: field('Whether it is used. A disabled one may have `{}` as credentials.', z._default(z.boolean(), true)),
    credentials: z
      .record(z.string(), z.string())
      .check(z.meta({ description: 'Stored encrypted.', anyOf: [form, { maxProperties: 0 }] })),
  }
  const checkCredentials: z.core.CheckFn<unknown> = ({ value, issues }) => {
    const { data } = z.object(common).safeParse(value)
    if (!data || (!data.enabled && Object.keys(data.credentials).length === 0)) return
    for (const issue of credentials.safeParse(data.credentials).error?.issues ?? []) {
      issues.push({ ...issue, path: ['credentials', ...issue.path], input: undefined })
    }
  }
  // Beside the issues of other fields, not after them.
  return z.strictObject({ ...common, ...rest }).check(z.check(checkCredentials, { when: () => true }))
}

const supplier = (credentials: z.ZodMiniType) =>
  field(
    'A supplier of garments.',
    z.optional(integration(credentials, { base_url: field('The address of its service.', address) })),
  )
const supplierEntries = Object.values(suppliers).map(({ name, credentials }) => [name, supplier(credentials)] as const)

const accountingSync = integration(
  z.strictObject({
    realm_id: secret,
    client_id: secret,
    client_secret: secret,
    refresh_token: secret,
    item_id: z.optional(accountingId),
    tax_code_id: z.optional(accountingId),
    delete_mode: z.optional(z.enum(['void', 'delete'])),
  }),
  {
    base_url: field('The address of the accounting system, without `/v3/…`.', address),
    token_url: field('Where access tokens are issued. By default `/oauth2/v1/tokens/bearer`.', z.optional(address)),
  },
)

const storageFields = integration(z.strictObject({ access_key_id: secret, secret_access_key: secret }), {
  endpoint: field('The address of the S3 API, with or without the bucket before its host.', address),
  bucket: field('The name of the bucket.', oneLine(1, 255)),
  region: field('Known by itself for hosts of R2 and of amazonaws.com.', z.optional(oneLine(1, 64))),
  addressing: field(
    'Whether the bucket is in the path (the default) or before the host.',
    z.optional(z.enum(['path', 'virtual'])),
  ),
})

/** A storage with what the host of its endpoint implies: the region, and the bucket where it begins the host. */
const storage = z.pipe(
  storageFields,
  z.transform(({ enabled, credentials, endpoint, bucket, ...given }, { issues }) => {
    const report = (field: string, message: string) =>
      void issues.push({ code: 'custom', path: [field], message, input: undefined })
    const url = new URL(endpoint)
    const isBucketInHost = url.hostname.startsWith(`${bucket}.`)
    if (isBucketInHost) url.hostname = url.hostname.slice(bucket.length + 1)

    const hostRegion = regionOfHost(url.hostname)
    const region = given.region ?? hostRegion
    if (region === null) report('region', 'is required: it is known for hosts of R2 and of amazonaws.com only')
    if (region === 'auto' && hostRegion !== null && hostRegion !== 'auto') {
      report('region', 'must not be auto, a region of R2 only: leave it out to take it from the host')
    }
    const addressing = given.addressing ?? (isBucketInHost ? 'virtual' : 'path')
    if (addressing === 'virtual' && !BUCKET_LABEL.test(bucket)) {
      report('bucket', 'must be 3 to 63 of a-z, 0-9 and - for virtual addressing')
    }
    if (addressing === 'virtual' && IP_ADDRESS.test(url.hostname)) {
      report('addressing', 'must not be virtual where the host of the endpoint is an IP address')
    }
    const base_url = isBucketInHost ? url.href : endpoint
    return { enabled, credentials, base_url, bucket, region: region ?? '', addressing }
  }),
)

export const integrationsFile = z.strictObject({
  ...(Object.fromEntries(supplierEntries) as Record<SupplierName, ReturnType<typeof supplier>>),
  accounting_sync: field('The accounting system, to which orders are sent.', z.optional(accountingSync)),
  storage: field("The company's own storage of files. Without it: that of the deployment.", z.optional(storage)),
})

type IntegrationsFile = z.output<typeof integrationsFile>

/**
 * The key with which the Worker of a place decrypts credentials. Locally it is what `wrangler dev` reads from `.dev.vars`,
 * else that of the environment. A deployment takes only that of the environment, never the public development key.
 *
 * @throws CommandError when there is none
 */
export function readCredentialsKey(place: Place): string {
  const file = `${PROJECT_ROOT}.dev.vars`
  const isLocal = place !== 'remote' && existsSync(file)
  const key = (isLocal && parseEnv(readFileSync(file, 'utf8')).CREDENTIALS_KEY) || process.env.CREDENTIALS_KEY
  if (key) return key
  throw new CommandError('CREDENTIALS_KEY must be set in the environment: integrations have credentials.')
}

/** The rows of integrations. Credentials that are stored already keep their encrypted form. */
export async function listIntegrationRows(
  orm: Orm,
  companyId: number,
  file: IntegrationsFile,
  key: string,
  now: number,
) {
  const stored = await orm.select().from(integrations).where(eq(integrations.company_id, companyId))
  const given = Object.entries(file).flatMap(([kind, integration]) => (integration ? [{ kind, ...integration }] : []))
  const rows = given.map(async ({ kind, enabled, base_url, credentials, ...rest }) => {
    const before = stored.find((row) => row.kind === kind)?.credentials ?? ''
    const decrypted = await decryptCredentials(key, companyId, kind, before).catch(() => null)
    const isStored = isDeepStrictEqual(decrypted, credentials) && (await usesFirstKey(key, before))
    const encrypted = isStored ? before : await encryptCredentials(key, companyId, kind, credentials)
    const settings = JSON.stringify(rest)
    return { company_id: companyId, kind, enabled, base_url, settings, credentials: encrypted, updated_at: now }
  })
  return Promise.all(rows)
}

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
  malformed: 'its response is not a list of objects: is the endpoint the one of its S3 API?',
  refused: 'it refused the listing',
}

/**
 * Makes one signed listing of at most one object of the company.
 *
 * @throws CommandError with the problem
 */
export async function checkStorage(given: z.output<typeof storage>, companyId: number, now: number): Promise<void> {
  const { base_url, bucket, region, addressing, credentials } = given
  const { access_key_id: accessKeyId = '', secret_access_key: secretAccessKey = '' } = credentials
  const target = { endpoint: base_url, region, addressing, name: bucket, accessKeyId, secretAccessKey }
  try {
    await listObjects(target, now, companyPrefix(companyId), 1)
  } catch (error) {
    if (!(error instanceof StorageError)) throw error
    const { problem, status, code } = error
    const shown = code ?? (status !== null && `HTTP ${status}`)
    throw new CommandError(`storage: ${PROBLEMS[code ?? ''] ?? PROBLEMS[problem]}${shown ? ` (${shown})` : ''}.`)
  }
}
