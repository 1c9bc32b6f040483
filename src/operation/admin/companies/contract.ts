import * as z from 'zod/mini'
import {
  changesOf,
  component,
  currency,
  type Documentation,
  dateTime,
  emailAddress,
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

const email = emailAddress().check(z.maxLength(254))
const role = z.enum(['developer', 'owner'])

const member = component('Member', 'Somebody who administers a company.', {
  email,
  role: role.check(
    z.describe('A developer manages tokens, webhooks and events; an owner integrations and members too.'),
  ),
  created_at: dateTime,
})

const defineMembers = adminContracts('Members', 'owner', {
  email: z
    .pipe(z.string().check(z.trim(), z.toLowerCase()), email)
    .check(z.meta({ format: 'email' }), z.describe('The email of the person, in any case.')),
})

export const listMembers = defineMembers('listMembers', 'GET /companies/{company_id}/members', listOf(member, {}))

export const putMember = defineMembers('putMember', 'PUT /companies/{company_id}/members/{email}', {
  body: component('MemberInput', 'The role of a member.', { role }),
  response: member,
  errors: ['conflict'],
})

export const deleteMember = defineMembers('deleteMember', 'DELETE /companies/{company_id}/members/{email}', {
  response: component('DeletedMember', 'The member that was removed.', { email, deleted: z.literal(true) }),
  errors: ['conflict'],
})

export const readSession = adminContracts('Session', 'member')('readSession', 'GET /me', {
  response: component('Session', 'Who is signed in.', {
    actor: z.string().check(z.describe('An email, or `operator` for the secret of the deployment.')),
    operator: z.boolean(),
    companies: z
      .array(z.strictObject({ id, name: z.string(), role: z.enum(['developer', 'owner', 'operator']) }))
      .check(z.describe('The companies that the caller may administer, the first 1,000.')),
  }),
})

const entry = component('AuditEntry', 'A change, without its values.', {
  time: dateTime,
  actor: z.string().check(z.describe('An email, `operator`, or `token` for a request of the API.')),
  token_id: z.nullable(id).check(z.describe('The token of a request of the API.')),
  action: z.string(),
  entity_id: z.string(),
  address: z.nullable(z.string()).check(z.describe('The IP address of an administrator.')),
  request_id: z.string(),
})

export const listAudit = adminContracts('Audit', 'developer')(
  'listAudit',
  'GET /companies/{company_id}/audit',
  listOf(entry, {
    source: z
      ._default(z.enum(['administration', 'api']), 'administration')
      .check(z.meta({ default: 'administration' }), z.describe('Changes by people and operators, or by tokens.')),
  }),
)

const used = { requests: 412, refused: 0, database_ms: 903 }

export const published = {
  tags: {
    Companies: 'The companies of the deployment, and what they use.',
    Session: 'Who is signed in.',
    Members: 'The people who administer a company.',
    Audit: 'Who changed what.',
  },
  document: (): Record<string, Documentation> => ({
    listCompanies: {
      summary: 'List companies',
      description:
        'In ascending order of ids. While a further database fails, its companies have counters of 0 and may have old settings.',
    },
    readCompany: {
      summary: 'Read a company',
      description: 'With how much it stores.',
    },
    updateCompany: {
      summary: 'Change, suspend or resume a company',
      description:
        'A suspended company’s tokens get 403 within 30 seconds, and nothing of it is delivered. `deliveries_paused` holds back accounting events and webhooks alone; what waited is delivered when it ends, to webhooks what the feed still has: 31 days. After a 503 send the request again, or its opposite: deliveries may have stopped already.',
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
    readSession: {
      summary: 'Read who is signed in',
      description: 'The caller, and the companies that they may administer.',
    },
    listMembers: {
      summary: 'List members',
      description: 'Who administers the company, by email.',
    },
    putMember: {
      summary: 'Add a member or change their role',
      description:
        'Takes effect with the next request of that person. The last owner cannot become a developer: 409, as for more than 1,000 members.',
      example: { params: { email: 'dev@ridgeline.example' }, body: { role: 'developer' } },
    },
    deleteMember: {
      summary: 'Remove a member',
      description: 'The last owner cannot be removed: 409.',
      example: { params: { email: 'dev@ridgeline.example' } },
    },
    listAudit: {
      summary: 'List the audit trail',
      description:
        'Who changed what and when, latest stored first (a restore stores those of its backup again): changes by administrators of 400 days, or by tokens of 90 days. A token that does the same to an object again within a minute has one entry.',
    },
  }),
}
