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
export function shopThatWorks(outside: Simulators): SeedInput {
  return {
    ...smallShop(1),
    company: { id: 1, name: 'Shop 1', accounting_sync_enabled: true },
    integrations: {
      supplier_a: { base_url: `${outside.supplierA.url}/t/a${ENDPOINT_PATH}`, credentials: { ...SUPPLIER_A } },
      supplier_b: { base_url: `${outside.supplierB.url}/t/b`, credentials: { ...SUPPLIER_B } },
      accounting_sync: { base_url: `${outside.accounting.url}/t/x`, credentials: { ...ACCOUNTING } },
      storage: {
        endpoint: `${outside.s3.url}/t/${BUCKET}`,
        bucket: BUCKET,
        region: S3_REGION,
        credentials: S3_KEYS,
      },
    },
  }
}

/** A company whose outside systems refuse its credentials. */
export function shopThatIsRefused(outside: Simulators): SeedInput {
  return {
    ...smallShop(2),
    company: { id: 2, name: 'Shop 2', accounting_sync_enabled: true },
    integrations: {
      supplier_a: {
        base_url: `${outside.supplierA.url}/t/a2${ENDPOINT_PATH}`,
        credentials: { ...SUPPLIER_A, password: WRONG.password },
      },
      supplier_b: { base_url: `${outside.supplierB.url}/t/b2`, credentials: { ...SUPPLIER_B, api_key: WRONG.apiKey } },
      accounting_sync: {
        base_url: `${outside.accounting.url}/t/x2`,
        credentials: {
          ...credentialsFor('4712'),
          client_secret: WRONG.clientSecret,
          refresh_token: WRONG.refreshToken,
        },
      },
      storage: {
        endpoint: `${outside.s3.url}/t/${BUCKET}-2`,
        bucket: `${BUCKET}-2`,
        region: S3_REGION,
        credentials: { ...S3_KEYS, secret_access_key: WRONG.storageSecret },
      },
    },
  }
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
