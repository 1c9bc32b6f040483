import * as z from 'zod/mini'
import {
  component,
  dateTime,
  defineContract,
  id,
  idText,
  namesAField,
  trimmed,
  wholeNumber,
} from '../../../kernel/api/contract.ts'
import { adminPage, adminPageOf } from '../paging.ts'

const params = z.strictObject({ company_id: idText.check(z.describe('The company.')) })
const count = z.int().check(z.nonnegative())

const quota = z.optional(count.check(z.maximum(2 ** 40), z.meta({ maximum: 2 ** 40 })))

const company = component('Company', 'A company of this deployment.', {
  id,
  name: z.string(),
  database: z.string().check(z.describe('The binding of the database that has its data.')),
  suspended: z.boolean().check(z.describe('Whether its tokens are refused.')),
  accounting_sync_enabled: z.boolean(),
  deliveries_paused: z.boolean().check(z.describe('Whether accounting events and webhooks wait.')),
  client_count: count,
  order_count: count,
  mail_bytes: count.check(z.describe('Stored bytes of email threads.')),
  mail_quota_bytes: count,
  stored_bytes: count.check(z.describe('Stored bytes of all else, to about 10 %.')),
  storage_quota_bytes: count,
  created_at: dateTime,
  updated_at: dateTime,
})

const common = { tag: 'Companies', permission: null, errors: [] } as const

export const listCompanies = defineContract({
  ...common,
  method: 'GET',
  path: '/companies',
  operationId: 'listCompanies',
  role: 'operator',
  query: z.strictObject(adminPage),
  response: adminPageOf(company),
})

export const readCompany = defineContract({
  ...common,
  method: 'GET',
  path: '/companies/{company_id}',
  operationId: 'readCompany',
  role: 'developer',
  params,
  response: company,
})

export const updateCompany = defineContract({
  ...common,
  method: 'PATCH',
  path: '/companies/{company_id}',
  operationId: 'updateCompany',
  role: 'operator',
  params,
  body: z
    .strictObject({
      name: z.optional(trimmed(255)),
      suspended: z.optional(z.boolean()),
      accounting_sync_enabled: z.optional(z.boolean()),
      deliveries_paused: z.optional(z.boolean()),
      mail_quota_bytes: quota,
      storage_quota_bytes: quota,
    })
    .check(namesAField, z.meta({ id: 'CompanyChange', description: 'The fields to change.' })),
  response: company,
})

export const readUsage = defineContract({
  ...common,
  method: 'GET',
  path: '/companies/{company_id}/usage',
  operationId: 'readUsage',
  role: 'developer',
  params,
  query: z.strictObject({
    hours: z
      ._default(wholeNumber(1, 24), 24)
      .check(z.meta({ default: 24 }), z.describe('How many hours, the present one included.')),
  }),
  response: component('Usage', 'What the company’s tokens used, by hour.', {
    data: z.array(
      z.strictObject({
        hour: dateTime.check(z.describe('When the hour begins.')),
        requests: count,
        refused: count.check(z.describe('Requests over a limit.')),
        database_ms: count.check(z.describe('Milliseconds of database time.')),
      }),
    ),
    totals: z.strictObject({ requests: count, refused: count, database_ms: count }),
    incomplete: z.boolean().check(z.describe('Whether a counter could not be read, or a company has over 100 tokens.')),
  }),
})

export const endpoints = [listCompanies, readCompany, updateCompany, readUsage]
