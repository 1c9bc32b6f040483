import { env } from 'cloudflare:workers'
import { inject } from 'vitest'
import type { Fault } from '../../../src/simulators/kit.ts'
import { S3_KEYS, S3_REGION } from '../../../src/simulators/s3-keys.ts'
import { look, spoil } from '../../../src/simulators/steer.ts'
import { type ApiResponse, type Home, mintCompany, type TestCompany } from '../../support/app.ts'
import { integrate } from '../../support/rows.ts'

export interface CompanyWithOrder extends TestCompany {
  orderId: number
}

export async function mintCompanyWithOrder(options: { home?: Home } = {}): Promise<CompanyWithOrder> {
  const company = await mintCompany(options)
  return { ...company, orderId: await mintOrder(company) }
}

export async function mintOrder(company: TestCompany): Promise<number> {
  const client = await company.call('POST', '/clients', { company_name: 'Club' })
  const order = await company.call('POST', '/orders', { title: 'Jerseys', client_id: client.body.client.id })
  return order.body.project.id
}

/** The prefix of the keys of an order's files. */
export const folderOf = ({ id, orderId }: CompanyWithOrder) => `orders/${id}/${orderId}/`

export const listFiles = (of: CompanyWithOrder, query = '') => of.call('GET', `/orders/${of.orderId}/files${query}`)

export const pathsOf = ({ body }: ApiResponse): string[] => body.files.map(({ path }: { path: string }) => path)

export const WITHOUT_STORAGE = { ...env, STORAGE_RELAY: '', STORAGE_ENDPOINT: '' }

/** The company's own bucket at the simulator, whose scope has the same name. */
export async function giveStorage(
  company: TestCompany,
  options: { enabled?: boolean; credentials?: Partial<typeof S3_KEYS>; settings?: object } = {},
): Promise<string> {
  const bucket = `bucket-${crypto.randomUUID()}`
  await fillBucket(bucket, [])
  await integrate(company, 'storage', {
    ...options,
    base_url: scopeUrl(bucket),
    settings: { bucket, region: S3_REGION, ...options.settings },
    credentials: { ...S3_KEYS, ...options.credentials },
  })
  return bucket
}

export function scopeUrl(bucket: string): string {
  return `${inject('s3Url')}/t/${bucket}`
}

export const setFaults = (bucket: string, ...faults: Fault[]) => spoil(scopeUrl(bucket), ...faults)

export const callCount = async (bucket: string) => (await look(scopeUrl(bucket))).calls.length

export const LAST_MODIFIED = '2026-03-02T09:30:00.000Z'

/** Puts images of three bytes into a bucket, in place of what it had. */
export async function fillBucket(bucket: string, keys: string[], settings: object = {}): Promise<void> {
  const objects = keys.map((key) => ({ key, size: 3, lastModified: LAST_MODIFIED, contentType: 'image/png' }))
  await fetch(`${scopeUrl(bucket)}/${bucket}`, { method: 'PUT', body: JSON.stringify({ objects, ...settings }) })
}

/** Names that a URL or a header must encode. */
export const NAMES = ['a b.png', 'plain.pdf', "(x)!*'", 'a+b%2B.txt', 'café 👕.png', 'quo"te\\.csv', '&?#=;.txt', '~']

export type Action = 'download' | 'delete'
export const ACTIONS: Action[] = ['download', 'delete']

/** What is sent for one file. */
export function target(action: Action, orderId: number | string, key: string): [method: string, path: string] {
  const query = `path=${encodeURIComponent(key)}`
  return action === 'download'
    ? ['GET', `/orders/${orderId}/files/download?${query}`]
    : ['DELETE', `/orders/${orderId}/files?${query}`]
}

/** Downloads or deletes a file of the order. */
export const ask = (action: Action, of: CompanyWithOrder, key: string) => of.call(...target(action, of.orderId, key))
