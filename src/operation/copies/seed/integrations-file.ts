import * as z from 'zod/mini'
import { accountingId, oneLine, trimmed } from '../../../kernel/api/contract.ts'
import type { Issue } from '../../../kernel/http/errors.ts'
import { type AddressPolicy, findFormProblem, MAX_URL_LENGTH } from '../../../kernel/http/outbound.ts'
import { type SupplierName, suppliers } from '../../../resources/products/contract.ts'
import { secret } from '../../../resources/products/suppliers/supplier.ts'

const BUCKET = /^[A-Za-z0-9][\w.-]{0,254}$/
const BUCKET_RULE = 'must be 1 to 255 letters, digits, ., _ or -, and begin with a letter or digit'
/** A bucket name that is a valid label of a host name and fits a certificate for `*.HOST`. */
const BUCKET_LABEL = /^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$/
const IP_ADDRESS = /^(\[.*\]|[\d.]+)$/
/** Hosts of Amazon S3 and R2 without a bucket. Elsewhere a bucket may have the name of the host's first label. */
const SHARED_HOST = /^(s3[.-](.+\.)?amazonaws\.com(\.cn)?|[0-9a-f]{32}\.(\w+\.)?r2\.cloudflarestorage\.com)$/

/** A loopback address has this form too: see {@link findAddressIssues}. */
const address = trimmed(MAX_URL_LENGTH).check(({ value, issues }) => {
  const message = findFormProblem(value, true)
  if (message !== null) issues.push({ code: 'custom', message, input: value })
})

/** Paths and queries are added to it. */
const base = address.check(z.refine((value) => !value.includes('?'), 'must not contain a query'))

export const field = <T extends z.ZodMiniType>(description: string, schema: T) => schema.check(z.describe(description))

/** An integration. A disabled one may have no credentials yet. */
function integration<Rest extends z.core.$ZodShape>(credentials: z.ZodMiniType, rest: Rest) {
  const common = {
    enabled: field('Whether it is used. A disabled one may have `{}` as credentials.', z._default(z.boolean(), true)),
    credentials: field('Stored encrypted.', z.record(z.string(), z.string())),
  }
  const checkCredentials: z.core.CheckFn<unknown> = ({ value, issues }) => {
    const { data } = z.object(common).safeParse(value)
    if (!data || (!data.enabled && Object.keys(data.credentials).length === 0)) return
    for (const issue of credentials.safeParse(data.credentials).error?.issues ?? []) {
      issues.push({ ...issue, path: ['credentials', ...issue.path], input: undefined })
    }
  }
  // Report credentials together with the issues of other fields.
  return z.strictObject({ ...common, ...rest }).check(z.check(checkCredentials, { when: () => true }))
}

const supplier = (credentials: z.ZodMiniType) =>
  field(
    'A supplier of garments.',
    z.optional(integration(credentials, { base_url: field('The address of its service.', base) })),
  )
const supplierEntries = Object.values(suppliers).map(({ name, credentials }) => [name, supplier(credentials)] as const)

const accountingCredentials = z.strictObject({
  realm_id: secret,
  client_id: secret,
  client_secret: secret,
  refresh_token: secret,
  item_id: z.optional(accountingId),
  tax_code_id: z.optional(accountingId),
  delete_mode: z.optional(z.enum(['void', 'delete'])),
})
const accountingSync = integration(accountingCredentials, {
  base_url: field('The address of the accounting system, without `/v3/…`.', base),
  token_url: field('Where access tokens are issued. By default `/oauth2/v1/tokens/bearer`.', z.optional(address)),
})

const storageCredentials = z.strictObject({ access_key_id: secret, secret_access_key: secret })
const storageFields = integration(storageCredentials, {
  endpoint: field(
    'The address of the S3 API, without the bucket; for Amazon S3 and R2 also with it before the host.',
    base,
  ),
  bucket: field('The name of the bucket.', z.string().check(z.regex(BUCKET, BUCKET_RULE))),
  region: field(
    'Known by itself for hosts of R2, amazonaws.com and backblazeb2.com, else `us-east-1`.',
    z.optional(oneLine(64)),
  ),
  addressing: field(
    'Whether the bucket is in the path (the default) or before the host.',
    z.optional(z.enum(['path', 'virtual'])),
  ),
})

/** A storage, whose endpoint is without the bucket. */
const storage = z.pipe(
  storageFields,
  z.transform(({ enabled, credentials, endpoint, bucket, ...given }, { issues }) => {
    const report = (field: string, message: string) =>
      void issues.push({ code: 'custom', path: [field], message, input: undefined })
    const url = new URL(endpoint)
    const host = url.hostname.startsWith(`${bucket}.`) ? url.hostname.slice(bucket.length + 1) : ''
    const isBucketInHost = SHARED_HOST.test(host)
    if (isBucketInHost) url.hostname = host

    const addressing = given.addressing ?? (isBucketInHost ? 'virtual' : 'path')
    if (addressing === 'virtual' && !BUCKET_LABEL.test(bucket)) {
      report('bucket', 'must be 3 to 63 of a-z, 0-9 and - for virtual addressing')
    }
    if (addressing === 'virtual' && IP_ADDRESS.test(url.hostname)) {
      report('addressing', 'must not be virtual where the host of the endpoint is an IP address')
    }
    const base_url = isBucketInHost ? url.href : endpoint
    return { enabled, credentials, base_url, bucket, ...given, addressing }
  }),
)

/** Schemas of credentials by kind; the schema above has only a record of texts. */
export const credentialForms: Record<string, z.ZodMiniType> = {
  ...Object.fromEntries(Object.values(suppliers).map(({ name, credentials }) => [name, credentials])),
  accounting_sync: accountingCredentials,
  storage: storageCredentials,
}

export const integrationsFile = z.strictObject({
  ...(Object.fromEntries(supplierEntries) as Record<SupplierName, ReturnType<typeof supplier>>),
  accounting_sync: field('The accounting system, to which orders are sent.', z.optional(accountingSync)),
  storage: field("The company's own storage of files. Without it: that of the deployment.", z.optional(storage)),
})

export type IntegrationsFile = z.output<typeof integrationsFile>

/** Lists addresses that the service may not call, by path: loopback ones, except in development. */
export function findAddressIssues(file: IntegrationsFile, { allowsLoopback }: AddressPolicy): Issue[] {
  return Object.entries(file).flatMap(([kind, integration]) => {
    const { base_url, token_url } = { base_url: undefined, token_url: undefined, ...integration }
    const fields = { [kind === 'storage' ? 'endpoint' : 'base_url']: base_url, token_url }
    return Object.entries(fields).flatMap(([field, address]) => {
      const message = address === undefined ? null : findFormProblem(address, allowsLoopback)
      return message === null ? [] : [{ path: `${kind}.${field}`, message }]
    })
  })
}
