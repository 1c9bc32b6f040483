import { readFile } from 'node:fs/promises'
import * as z from 'zod'
import { date, id, text, trimmed } from '../http/contract.ts'
import { CommandError } from './command.ts'
import { integrationsFile } from './seed-integrations.ts'

const MONEY_MAX = 999_999_999.99
const QUANTITY_MAX = 1_000_000
const JSON_MAX_BYTES = 500_000

const flag = z.boolean().default(false)
const line = trimmed(255).nullable().default(null)
const reason = trimmed(1000).nullable().default(null)
const prose = text(0, 10_000).nullable().default(null)
const day = date.nullable().default(null)
const position = z.int().min(0).max(1_000_000)

function decimals(places: number, min: number, max: number) {
  const scale = 10 ** places
  return z
    .number()
    .min(min)
    .max(max)
    .refine(
      (value) => Math.abs(value * scale - Math.round(value * scale)) < 1e-4,
      `must have at most ${places} decimals`,
    )
}

const money = decimals(2, -MONEY_MAX, MONEY_MAX)

/** Milliseconds since the epoch. */
const instant = z.iso.datetime({ offset: true }).transform((value) => Date.parse(value))

const company = z.strictObject({
  id,
  name: trimmed(255),
  accounting_sync_enabled: flag,
  suspended: flag,
})

const orderStatus = z.strictObject({
  id,
  title: trimmed(255),
  color: line,
  workflow_key: line,
  position: position.optional(),
  is_default: flag,
  deleted: flag,
})

const tax = z.strictObject({ id, name: trimmed(255), rate: decimals(4, 0, 100), deleted: flag })

const client = z.strictObject({
  id,
  company_name: trimmed(255),
  first_name: line,
  last_name: line,
  email: z.string().trim().pipe(z.email().max(255)).nullable().default(null),
  website: text(1, 255).nullable().default(null),
  phone: line,
  accounting_sync_enabled: flag,
  tax_exempt: flag,
  tax_exempt_reason: reason,
  deleted: flag,
  created_at: instant.optional(),
  updated_at: instant.optional(),
})

const item = z.strictObject({
  id,
  title: trimmed(255),
  description: prose,
  quantity: decimals(4, 0, QUANTITY_MAX),
  unit_price: money,
  taxable: z.boolean().default(true),
  supplier: line,
  style: line,
  color: line,
  size: line,
  sku: line,
  position: position.optional(),
  deleted: flag,
})

const payment = z.strictObject({
  id,
  amount: money,
  method: line,
  paid_at: z
    .union(
      [date, instant.transform((ms) => new Date(ms).toISOString())],
      'must be a date or a date-time with an offset',
    )
    .nullable()
    .default(null),
  note: prose,
})

const invoice = z
  .strictObject({
    id,
    number: trimmed(64).optional(),
    due_date: day,
    tax_id: z.int().nonnegative().nullable().default(null),
    tax_exempt: flag,
    tax_exempt_reason: reason,
    discount_amount: decimals(2, 0, MONEY_MAX).default(0),
    discount_amount_type: z
      .enum(['percentage', 'fixed_amount', 'fixed', 'amount'])
      .transform((type): 'percentage' | 'fixed_amount' => (type === 'percentage' ? type : 'fixed_amount'))
      .default('percentage'),
    discount_type: z.enum(['before_tax', 'after_tax']).default('before_tax'),
    deleted: flag,
    items: z.array(item).default([]),
    payments: z.array(payment).default([]),
  })
  .refine((value) => value.discount_amount_type !== 'percentage' || value.discount_amount <= 100, {
    path: ['discount_amount'],
    error: 'a percentage must be at most 100',
  })

const artwork = z.strictObject({
  id,
  name: trimmed(255),
  print_method: line,
  placements: z.array(z.json()).default([]),
  colors: z.array(z.json()).default([]),
  preview_url: text(1, 2048).nullable().default(null),
  status: line,
})

const order = z.strictObject({
  id,
  title: trimmed(255),
  client_id: id,
  order_status_id: id.nullable().default(null),
  description: prose,
  start_date: text(1, 64).nullable().default(null),
  deadline: day,
  client_notes: prose,
  created_date: date.optional(),
  created_at: instant.optional(),
  updated_at: instant.optional(),
  deleted: flag,
  invoice: invoice.nullable().default(null),
  artworks: z.array(artwork).default([]),
})

const catalogItem = z.strictObject({
  id,
  title: trimmed(255),
  description: prose,
  price: decimals(2, 0, MONEY_MAX).nullable().default(null),
  deleted: flag,
})

/** Stored as JSON text, well under what one value may be. */
const json = z
  .json()
  .refine((value) => Buffer.byteLength(JSON.stringify(value)) <= JSON_MAX_BYTES, 'must be at most 500 KB as JSON')
  .optional()
const threadId = text(1, 255)

const threadContext = z.strictObject({
  thread_id: threadId,
  legacy_thread_id: threadId.nullable().default(null),
  sender_email: line,
  client_id: line,
  client_data: json.refine(
    (value) => value === undefined || (!Array.isArray(value) && typeof value === 'object'),
    'must be an object or null',
  ),
  clients_data: json,
  orders_data: json,
  selected_order_id: line,
  participant_emails: json,
  participants_data: json,
  fetched_at: instant.optional(),
  updated_at: instant.optional(),
})

/** The seed file: one company's data. A field left out takes its default. */
export const seedFile = z.strictObject({
  company,
  order_statuses: z.array(orderStatus).default([]),
  taxes: z.array(tax).default([]),
  clients: z.array(client).default([]),
  orders: z.array(order).default([]),
  catalog_items: z.array(catalogItem).default([]),
  thread_contexts: z.array(threadContext).default([]),
  integrations: integrationsFile.default({}),
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
