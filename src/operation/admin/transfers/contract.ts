import * as z from 'zod/mini'
import { component, cursorText, type Documentation, dateTime, id, idText } from '../../../kernel/api/contract.ts'
import { exportedThread } from '../../../resources/mail/contract.ts'
import { seedFile } from '../../copies/seed/file.ts'
import { adminContracts } from '../fields.ts'

/** Limits the parts of a file: 50 million rows at 500 rows a part, more than a database holds. */
const MAX_PARTS = 100_000
/** Limits the ids of one kind to which a part can refer. */
const MAX_KNOWN = 2_000

const hash = z
  .string()
  .check(z.regex(/^[0-9a-f]{64}$/, 'must be 64 lower-case hexadecimal digits'), z.describe('Names the import.'))
const partNumber = z.int().check(z.minimum(1), z.maximum(MAX_PARTS))
const parts = partNumber.check(z.describe('How many parts the file has.'))
const nextPart = z
  .nullable(partNumber)
  .check(z.describe('The part to send next. Null when all are loaded: the file may be sent again from part 1.'))
const flag = (description: string) => z._default(z.boolean(), false).check(z.describe(description))
const knownIds = z.optional(z.array(id).check(z.maxLength(MAX_KNOWN)))

const importPart = z
  .strictObject({
    hash: hash.check(z.describe('Of the whole file: names the import. By convention the SHA-256.')),
    part: partNumber.check(z.describe('Which part it is, from 1. Parts are loaded in this order.')),
    parts,
    check: flag('Compares the part with the database and loads nothing: check all parts before the first is loaded.'),
    into_empty: flag('Refuses a company that has data, unless a part of this import is loaded.'),
    known: z
      .optional(z.strictObject({ clients: knownIds, order_statuses: knownIds, taxes: knownIds }))
      .check(z.describe('For a check: ids in other parts of the file, to which this one refers.')),
    file: seedFile.check(z.describe('A seed file of the company. Together with the other parts it is the whole file.')),
  })
  .check(
    z.refine(({ part, parts }) => part <= parts, { path: ['part'], error: 'must be at most `parts`' }),
    z.meta({ id: 'ImportPart', description: 'A part of a seed file, loaded as one transaction.' }),
  )

const difference = z.strictObject({
  type: z.string().check(z.describe('Such as `client`, `order`, `invoice` or `line`.')),
  id,
  fields: z.array(z.string()),
})

const define = adminContracts('Imports', 'operator', { hash })

export const createImport = define('createImport', 'POST /companies/{company_id}/imports', {
  createsCompany: true,
  params: z.strictObject({
    company_id: idText.check(z.describe('The company, which is created when there is none.')),
  }),
  body: importPart,
  bodyLimitBytes: 5_242_880, // 5 MiB: an order with all that belongs to it.
  response: component('ImportResult', 'What a part holds, and what comes next.', {
    hash,
    part: partNumber,
    parts,
    next_part: nextPart,
    counts: z.record(z.string(), z.int()).check(z.describe('Rows of the part by table.')),
    differences: z
      .array(difference)
      .check(z.describe('Rows of clients and orders that exist and differ from the part. They are not changed.')),
  }),
  errors: ['conflict'],
})

export const readImport = define('readImport', 'GET /companies/{company_id}/imports/{hash}', {
  response: component('Import', 'How far an import has come.', {
    hash,
    parts,
    next_part: nextPart,
    updated_at: dateTime,
  }),
})

export const importEmailThread = define('importEmailThread', 'POST /companies/{company_id}/imports/email-threads', {
  body: exportedThread,
  hasRawBody: true,
  bodyLimitBytes: 27_262_976, // 26 MiB: the body of a PUT, and texts of an earlier one.
  response: component('ImportedEmailThread', 'A thread of a company.', {
    id: z.uuid(),
    is_new: z.boolean().check(z.describe('False where the company had a thread of this mailbox and legacy id.')),
  }),
  errors: ['conflict'],
})

export const exportCompany = adminContracts('Exports', 'owner')('exportCompany', 'GET /companies/{company_id}/export', {
  query: z.strictObject({
    cursor: z
      .optional(cursorText)
      .check(z.describe('The `cursor` of the last line of a response: the part of the export behind it.')),
  }),
  response: z.string().check(z.describe('Lines of JSON, each `{"type": …, "data": …}`.')),
  mediaType: 'application/x-ndjson',
})

const sampleHash = '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08'
const sampleLines = `{"type":"company","data":{"id":1,"name":"Ridgeline Custom Apparel"}}
{"type":"clients","data":{"id":1,"company_name":"Harbor Rowing Club"}}
{"type":"end","data":{}}
`

export const published = {
  tags: {
    Imports: 'Seed files: the data of one company.',
    Exports: 'The data of one company as lines.',
  },
  document: (): Record<string, Documentation> => ({
    createImport: {
      summary: 'Load a part of a seed file',
      description: `Loads one part of the seed file of a company, which is created when there is none. Each part is one transaction
of at most 1,000 rows, or one order, and can be sent again. Send the parts in ascending order: what others refer to first, and
orders whose invoices have numbers before those that are to get one.

To change nothing where the file is invalid, first send every part with \`check: true\`. After an interruption continue at the
\`next_part\` of \`GET …/imports/{hash}\`. The same file again changes nothing: of clients and orders only the absent ones
are loaded, orders whole, all other rows become those of the file. Credentials are encrypted with the key of the deployment.`,
      example: {
        body: {
          hash: sampleHash,
          part: 1,
          parts: 2,
          check: false,
          file: {
            company: { id: 1, name: 'Ridgeline Custom Apparel' },
            clients: [{ id: 1, company_name: 'Harbor Rowing Club', email: 'crew@harbor.example' }],
          },
        },
      },
    },
    readImport: {
      summary: 'Read how far an import has come',
      description: 'For 30 days after its last part.',
      example: { params: { hash: sampleHash } },
    },
    importEmailThread: {
      summary: 'Load an email thread of an export',
      description: `Loads one thread as it is in a line of an export, with its id, times and revisions. A thread that the company
has already, by mailbox and legacy id, stays as it is: so the request can be repeated.`,
      example: {
        body: {
          id: '0a6c1f0e-9d6c-4d0b-8a77-3b8c1c1f5a11',
          account_email: 'orders@ridgeline.example',
          legacy_thread_id: '19cce455887af494',
          last_synced_at: '2026-03-02T09:00:00.000Z',
          created_at: '2026-03-02T09:00:00.000Z',
          updated_at: '2026-03-02T09:00:00.000Z',
          deleted: false,
          revision: 1,
          content_revision: 1,
          subject: 'Staff shirts: the new logo',
          messages: [{ body_plain: 'Here is the logo for the shirts …' }],
        },
      },
    },
    exportCompany: {
      summary: 'Export a company',
      description: `Everything of the company as lines of JSON: \`company\`, \`integrations\`, \`orders\`, \`clients\`, \`taxes\`,
\`order_statuses\`, \`catalog_items\` and \`thread_contexts\` in the form of a seed file, and \`email_threads\` with the texts and
arrays as they were sent. Deleted rows are there too, but for lines of an invoice. The credentials of integrations are left out; tokens, webhook endpoints,
accounting events and files are not part of it.

The last line is \`end\`, or \`next\` with the \`cursor\` of the request that continues. A response without either was cut
off: request it again. Rows that change during an export are exported before or after the change.`,
      example: { response: sampleLines },
    },
  }),
}
