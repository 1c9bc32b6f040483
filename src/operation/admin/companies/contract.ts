import * as z from 'zod/mini'
import {
  changesOf,
  component,
  currency,
  type Documentation,
  dateTime,
  id,
  trimmed,
  wholeNumber,
  withDefault,
} from '../../../kernel/api/contract.ts'
import { QUOTA_MAX } from '../../../kernel/db/names.ts'
import { adminContracts, count, listOf } from '../fields.ts'

const quota = z.optional(count.check(z.maximum(QUOTA_MAX), z.meta({ maximum: QUOTA_MAX })))

const company = component('Company', 'A company of this deployment.', {
  id,
  name: z.string(),
  database: z.string().check(z.describe('The binding of the database that has its data.')),
  suspended: z.boolean().check(z.describe('Whether its tokens are refused.')),
  currency,
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

const define = adminContracts('Companies', 'developer')

export const listCompanies = define('listCompanies', 'GET /companies', {
  role: 'operator',
  ...listOf(company, {}),
})

export const readCompany = define('readCompany', 'GET /companies/{company_id}', { response: company })

export const updateCompany = define('updateCompany', 'PATCH /companies/{company_id}', {
  role: 'operator',
  body: changesOf('CompanyChange', 'The fields to change.', {
    name: z.optional(trimmed(255)),
    suspended: z.optional(z.boolean()),
    currency: z.optional(currency).check(z.describe('Only named by the API: amounts are not converted.')),
    accounting_sync_enabled: z.optional(z.boolean()),
    deliveries_paused: z.optional(z.boolean()),
    mail_quota_bytes: quota,
    storage_quota_bytes: quota,
  }),
  response: company,
})

export const putCurrency = define('putCurrency', 'PUT /companies/{company_id}/currency', {
  role: 'owner',
  body: component('Currency', 'The currency of a company.', { currency }),
  response: company,
})

export const readUsage = define('readUsage', 'GET /companies/{company_id}/usage', {
  query: z.strictObject({
    hours: withDefault(wholeNumber(1, 24), 24, 'How many hours, the present one included.'),
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

const used = { requests: 412, refused: 0, database_ms: 903 }

export const published = {
  tags: { Companies: 'The companies of the deployment, and what they use.' },
  document: (): Record<string, Documentation> => ({
    listCompanies: {
      summary: 'List companies',
      description: 'In ascending order of ids.',
    },
    readCompany: {
      summary: 'Read a company',
      description: 'With how much it stores.',
    },
    updateCompany: {
      summary: 'Change, suspend or resume a company',
      description:
        'A suspended company’s tokens get 403 within 30 seconds, and nothing of it is delivered. `deliveries_paused` holds back accounting events and webhooks alone; what waited is delivered when it ends. After a 503 send the request again, or its opposite: deliveries may have stopped already.',
      example: { body: { suspended: true } },
    },
    putCurrency: {
      summary: 'Set the currency of a company',
      description:
        'What `GET /me` of the API names: three capital letters, such as an ISO 4217 code; not checked against the list. Amounts are not converted.',
      example: { body: { currency: 'EUR' } },
    },
    readUsage: {
      summary: 'Read the usage of a company',
      description:
        'Requests, refusals and database time of the last hours. Refusals are counted with the next request of the token that is allowed; a request may count a few more that were allowed ahead.',
      example: {
        query: { hours: 1 },
        response: { data: [{ hour: '2026-03-02T09:00:00.000Z', ...used }], totals: used, incomplete: false },
      },
    },
  }),
}
