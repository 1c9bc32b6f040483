import { randomUUID } from 'node:crypto'
import type { SeedInput } from '../../src/operation/copies/seed/file.ts'
import { credentialsFor } from '../../src/simulators/accounting.ts'
import type { Simulator } from '../../src/simulators/kit.ts'
import { S3_KEYS, S3_REGION } from '../../src/simulators/s3-keys.ts'
import { ENDPOINT_PATH, CREDENTIALS as SUPPLIER_A } from '../../src/simulators/supplier-a.ts'
import { CREDENTIALS as SUPPLIER_B } from '../../src/simulators/supplier-b.ts'
import { smallShop } from '../support/small-shop.ts'

export type Simulators = Record<'supplierA' | 'supplierB' | 'accounting' | 's3', Simulator>

const REALM = '4711'
export const BUCKET = 'own-bucket'
/** With a refresh token as long as the real system's. */
export const ACCOUNTING = { ...credentialsFor(REALM), refresh_token: `refresh-${REALM}-${randomUUID()}` }
const THREAD = '18c2f0a9b7d3e4f1'
/** Of the company whose outside systems refuse it. */
export const WRONG = {
  password: 'refused-password-1',
  apiKey: 'refused-key-2',
  clientSecret: 'refused-client-secret-3',
  refreshToken: 'refresh-4712-refused-4',
  storageSecret: 'refused/storage+secret-5',
}

/** A company whose outside systems accept its credentials. */
export const shopThatWorks = (outside: Simulators) =>
  shopOf(outside, 1, '', { a: { ...SUPPLIER_A }, b: { ...SUPPLIER_B }, accounting: ACCOUNTING, storage: S3_KEYS })

/** A company whose outside systems refuse its credentials. */
export const shopThatIsRefused = (outside: Simulators) =>
  shopOf(outside, 2, '-2', {
    a: { ...SUPPLIER_A, password: WRONG.password },
    b: { ...SUPPLIER_B, api_key: WRONG.apiKey },
    accounting: {
      ...credentialsFor('4712'),
      client_secret: WRONG.clientSecret,
      refresh_token: WRONG.refreshToken,
    },
    storage: { ...S3_KEYS, secret_access_key: WRONG.storageSecret },
  })

type Credentials = Record<'a' | 'b' | 'accounting' | 'storage', Record<string, string>>

function shopOf({ supplierA, supplierB, accounting, s3 }: Simulators, id: number, suffix: string, of: Credentials) {
  const bucket = `${BUCKET}${suffix}`
  return {
    ...smallShop(id),
    company: { id, name: `Shop ${id}`, accounting_sync_enabled: true },
    integrations: {
      supplier_a: { base_url: `${supplierA.url}/t/a${suffix}${ENDPOINT_PATH}`, credentials: of.a },
      supplier_b: { base_url: `${supplierB.url}/t/b${suffix}`, credentials: of.b },
      accounting_sync: { base_url: `${accounting.url}/t/x${suffix}`, credentials: of.accounting },
      storage: { endpoint: `${s3.url}/t/${bucket}`, bucket, region: S3_REGION, credentials: of.storage },
    },
  } satisfies SeedInput
}

const message = { account_email: 'box@x.example', messages: [{ id: '1', body_plain: 'Hello' }] }
/** Requests to every endpoint, valid and invalid. */
export const REQUESTS: [string, string, unknown?][] = [
  ['GET', '/clients?q=tee'],
  ['POST', '/clients', { company_name: 'Acme' }],
  ['GET', '/clients/1'],
  ['PATCH', '/clients/1', { phone: '5' }],
  ['GET', '/orders'],
  ['POST', '/orders', { title: 'Shirts', client_id: 1 }],
  ['GET', '/orders/1'],
  ['PATCH', '/orders/1', { title: 'Other shirts' }],
  ['GET', '/products/search?q=PC61'],
  ['GET', '/products/supplier_a?style=PC61'],
  ['GET', '/products/supplier_b?styleId=40'],
  ['GET', '/products/invoice_item?id=1'],
  ['GET', `/mail/threads/${THREAD}`],
  ['PUT', `/mail/email-threads/${THREAD}`, message],
  ['GET', `/mail/email-threads/${THREAD}?account_email=box@x.example`],
  ['POST', '/orders/1/files/presign', { fileName: 'a.png', size: 1, legacyThreadId: THREAD }],
  ['GET', '/orders/1/files'],
  ['POST', '/clients', '{'],
  ['POST', '/clients', { company_name: 5 }],
  ['GET', '/nowhere'],
  ['DELETE', '/clients/1'],
  ['PUT', '/clients/1'],
  ['DELETE', '/orders/2'],
]
