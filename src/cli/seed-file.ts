import { readFile } from 'node:fs/promises'
import * as z from 'zod/mini'
import { email } from '../clients/contract.ts'
import { id as anyId, date, oneLine, text, trimmed } from '../http/contract.ts'
import { discountAmountType } from '../orders/contract.ts'
import { CommandError } from './command.ts'
import { accountingId, integrationsFile } from './seed-integrations.ts'

const MONEY_MAX = 999_999_999.99
const QUANTITY_MAX = 1_000_000
const JSON_MAX_BYTES = 500_000
const JSON_MAX_DEPTH = 500

/** What the API gives out begins above the highest id of a seed: these leave it room. */
const ID_MAX = 2 ** 48

const id = anyId.check(z.maximum(ID_MAX, `must be at most ${ID_MAX}`))
const flag = z._default(z.boolean(), false)
const line = z._default(z.nullable(trimmed(255)), null)
const reason = z._default(z.nullable(trimmed(1000)), null)
const prose = z._default(z.nullable(text(0, 10_000)), null)
const day = z._default(z.nullable(date), null)
const position = z.int().check(z.minimum(0), z.maximum(1_000_000))

function decimals(places: number, min: number, max: number) {
  const scale = 10 ** places
  const isRounded = (value: number) => Math.abs(value * scale - Math.round(value * scale)) < 1e-4
  return z.number().check(z.minimum(min), z.maximum(max), z.refine(isRounded, `must have at most ${places} decimals`))
}

const money = decimals(2, -MONEY_MAX, MONEY_MAX)

/** Milliseconds since the epoch. */
const instant = z.pipe(
  z.iso.datetime({ offset: true }),
  z.transform((value) => Date.parse(value)),
)

/** Stored bytes of a company's email threads, where its file names none: 2 GiB. */
const MAIL_QUOTA_BYTES = 2_147_483_648

const company = z.strictObject({
  id,
  name: trimmed(255),
  accounting_sync_enabled: flag,
  suspended: flag,
  mail_quota_bytes: z._default(z.int().check(z.positive()), MAIL_QUOTA_BYTES),
})

const orderStatus = z.strictObject({
  id,
  title: trimmed(255),
  color: line,
  workflow_key: line,
  position: z.optional(position),
  is_default: flag,
  deleted: flag,
})

const tax = z.strictObject({
  id,
  name: trimmed(255),
  rate: decimals(4, 0, 100),
  tax_code_id: z._default(z.nullable(accountingId), null),
  deleted: flag,
})

const client = z.strictObject({
  id,
  company_name: trimmed(255),
  first_name: line,
  last_name: line,
  email: z._default(z.nullable(email), null),
  website: z._default(z.nullable(oneLine(1, 255)), null),
  phone: line,
  accounting_customer_id: z._default(z.nullable(accountingId), null),
  accounting_sync_enabled: flag,
  tax_exempt: flag,
  tax_exempt_reason: reason,
  deleted: flag,
  created_at: z.optional(instant),
  updated_at: z.optional(instant),
})

const item = z.strictObject({
  id,
  title: trimmed(255),
  description: prose,
  quantity: decimals(4, 0, QUANTITY_MAX),
  unit_price: money,
  taxable: z._default(z.boolean(), true),
  supplier: line,
  style: line,
  color: line,
  size: line,
  sku: line,
  position: z.optional(position),
  deleted: flag,
})

const payment = z.strictObject({
  id,
  amount: money,
  method: line,
  paid_at: z._default(
    z.nullable(
      z.union(
        [
          date,
          z.pipe(
            instant,
            z.transform((ms) => new Date(ms).toISOString()),
          ),
        ],
        'must be a date or a date-time with an offset',
      ),
    ),
    null,
  ),
  note: prose,
})

const invoice = z
  .strictObject({
    id,
    number: z.optional(trimmed(64)),
    due_date: day,
    tax_id: z._default(
      z.nullable(z.int().check(z.nonnegative(), z.maximum(ID_MAX, `must be at most ${ID_MAX}`))),
      null,
    ),
    tax_exempt: flag,
    tax_exempt_reason: reason,
    discount_amount: z._default(decimals(2, 0, MONEY_MAX), 0),
    discount_amount_type: z._default(discountAmountType, 'percentage'),
    discount_type: z._default(z.enum(['before_tax', 'after_tax']), 'before_tax'),
    deleted: flag,
    items: z._default(z.array(item), []),
    payments: z._default(z.array(payment), []),
  })
  .check(
    z.refine((value) => value.discount_amount_type !== 'percentage' || value.discount_amount <= 100, {
      path: ['discount_amount'],
      error: 'a percentage must be at most 100',
    }),
  )

const artwork = z.strictObject({
  id,
  name: trimmed(255),
  print_method: line,
  placements: z._default(z.array(z.json()), []),
  colors: z._default(z.array(z.json()), []),
  preview_url: z._default(z.nullable(oneLine(1, 2048)), null),
  status: line,
})

const order = z.strictObject({
  id,
  title: trimmed(255),
  client_id: id,
  order_status_id: z._default(z.nullable(id), null),
  description: prose,
  start_date: z._default(z.nullable(oneLine(1, 64)), null),
  deadline: day,
  client_notes: prose,
  created_date: z.optional(date),
  created_at: z.optional(instant),
  updated_at: z.optional(instant),
  deleted: flag,
  invoice: z._default(z.nullable(invoice), null),
  artworks: z._default(z.array(artwork), []),
})

const catalogItem = z.strictObject({
  id,
  title: trimmed(255),
  description: prose,
  price: z._default(z.nullable(decimals(2, 0, MONEY_MAX)), null),
  deleted: flag,
})

/** Stored as JSON text, well under what one value may be, and no deeper than SQLite reads. */
const json = z.optional(
  z.json().check(
    z.refine((value) => Buffer.byteLength(JSON.stringify(value)) <= JSON_MAX_BYTES, 'must be at most 500 KB as JSON'),
    z.refine((value) => depthOf(value) <= JSON_MAX_DEPTH, `must be nested at most ${JSON_MAX_DEPTH} deep`),
  ),
)
const threadId = oneLine(1, 255)

const threadContext = z.strictObject({
  thread_id: threadId,
  legacy_thread_id: z._default(z.nullable(threadId), null),
  sender_email: line,
  client_id: line,
  client_data: json.check(
    z.refine(
      (value) => value === undefined || (!Array.isArray(value) && typeof value === 'object'),
      'must be an object or null',
    ),
  ),
  clients_data: json,
  orders_data: json,
  selected_order_id: line,
  participant_emails: json,
  participants_data: json,
  fetched_at: z.optional(instant),
  updated_at: z.optional(instant),
})

/** The seed file: one company's data. A field left out takes its default. */
export const seedFile = z.strictObject({
  company,
  order_statuses: z._default(z.array(orderStatus), []),
  taxes: z._default(z.array(tax), []),
  clients: z._default(z.array(client), []),
  orders: z._default(z.array(order), []),
  catalog_items: z._default(z.array(catalogItem), []),
  thread_contexts: z._default(z.array(threadContext), []),
  integrations: z._default(integrationsFile, {}),
})

export type SeedFile = z.output<typeof seedFile>
/** What a seed file may say, defaults left out. */
export type SeedInput = z.input<typeof seedFile>

/** @throws CommandError when there is no such file, or it is no JSON, or not of the form of a seed file */
export async function readSeedFile(path: string, name: string): Promise<SeedFile> {
  const content = await readFile(path, 'utf8').catch((error: unknown) => {
    const code = error instanceof Error && 'code' in error ? error.code : ''
    throw new CommandError(`${name}: ${code === 'ENOENT' ? 'no such file' : `cannot be read (${code})`}.`)
  })
  try {
    return checkSeed(JSON.parse(content.replace(/^\uFEFF/, '')), name)
  } catch (error) {
    // A JSON error's message quotes the file, which may hold credentials.
    throw error instanceof SyntaxError ? new CommandError(`${name}: not valid JSON.`) : error
  }
}

/** @throws CommandError naming the first thing that does not fit the form, and how many more there are */
export function checkSeed(value: unknown, name: string): SeedFile {
  const parsed = seedFile.safeParse(value)
  if (parsed.success) return parsed.data
  const { issues } = parsed.error
  throw new CommandError(
    describeIssues(
      name,
      issues.map((issue) => ({ path: issue.path, message: issue.message })),
    ),
  )
}

function depthOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  return 1 + Object.values(value).reduce((deepest, member) => Math.max(deepest, depthOf(member)), 0)
}

export interface SeedIssue {
  path: readonly PropertyKey[]
  message: string
}

export function describeIssues(name: string, issues: readonly SeedIssue[]): string {
  const [first] = issues
  const path = (first?.path ?? []).map((key) => (typeof key === 'number' ? `[${key}]` : `.${String(key)}`)).join('')
  const more = issues.length > 1 ? ` (and ${issues.length - 1} more)` : ''
  return `${name}: ${path === '' ? '' : `${path.replace(/^\./, '')}: `}${first?.message ?? 'does not fit'}${more}`
}
