import { readFile } from 'node:fs/promises'
import * as z from 'zod/mini'
import { email } from '../clients/contract.ts'
import { id as anyId, date, oneLine, text, trimmed } from '../http/contract.ts'
import { AMOUNT_MAX, decimals, discountAmountType } from '../orders/contract.ts'
import { paidAt } from '../orders/invoice-contract.ts'
import { CommandError } from './command.ts'
import { accountingId, integrationsFile } from './seed-integrations.ts'

/** Leaves room for the ids that the API assigns, which are above the highest one of a seed. */
const ID_MAX = 2 ** 48
const JSON_MAX_BYTES = 500_000
/** SQLite reads no deeper JSON. */
const JSON_MAX_DEPTH = 500

/** A field that is null when it is left out. */
function orNull<T extends z.ZodMiniType>(schema: T) {
  return z._default(z.nullable(schema), null as never)
}

function listOf<T extends z.ZodMiniType>(schema: T) {
  return z._default(z.array(schema), [])
}

const idMaximum = z.maximum(ID_MAX, `must be at most ${ID_MAX}`)
const id = anyId.check(idMaximum)
const flag = z._default(z.boolean(), false)
const title = trimmed(255)
const line = orNull(title)
const reason = orNull(trimmed(1000))
const prose = orNull(text(0, 10_000))
const day = orNull(date)
const position = z.optional(z.int().check(z.minimum(0), z.maximum(1_000_000)))
const money = decimals(2, -AMOUNT_MAX, AMOUNT_MAX)

/** Milliseconds since the epoch. */
const instant = z.pipe(z.iso.datetime({ offset: true }), z.transform(Date.parse))

const company = z.strictObject({
  id,
  name: title,
  accounting_sync_enabled: flag,
  suspended: flag,
  mail_quota_bytes: z._default(z.int().check(z.positive()), 2_147_483_648),
})

const status = z.strictObject({ id, title, color: line, workflow_key: line, position, is_default: flag, deleted: flag })

const tax_code_id = orNull(accountingId)
const tax = z.strictObject({ id, name: title, rate: decimals(4, 0, 100), tax_code_id, deleted: flag })

const client = z.strictObject({
  id,
  company_name: title,
  first_name: line,
  last_name: line,
  email: orNull(email),
  website: orNull(oneLine(1, 255)),
  phone: line,
  accounting_customer_id: orNull(accountingId),
  accounting_sync_enabled: flag,
  tax_exempt: flag,
  tax_exempt_reason: reason,
  deleted: flag,
  created_at: z.optional(instant),
  updated_at: z.optional(instant),
})

const item = z.strictObject({
  id,
  title,
  description: prose,
  quantity: decimals(4, 0, 1_000_000),
  unit_price: money,
  taxable: z._default(z.boolean(), true),
  supplier: line,
  style: line,
  color: line,
  size: line,
  sku: line,
  position,
  deleted: flag,
})

const payment = z.strictObject({ id, amount: money, method: line, paid_at: orNull(paidAt), note: prose })

const invoice = z
  .strictObject({
    id,
    number: z.optional(trimmed(64)),
    due_date: day,
    tax_id: orNull(z.int().check(z.nonnegative(), idMaximum)),
    tax_exempt: flag,
    tax_exempt_reason: reason,
    discount_amount: z._default(decimals(2, 0, AMOUNT_MAX), 0),
    discount_amount_type: z._default(discountAmountType, 'percentage'),
    discount_type: z._default(z.enum(['before_tax', 'after_tax']), 'before_tax'),
    deleted: flag,
    items: listOf(item),
    payments: listOf(payment),
  })
  .check(
    z.refine((value) => value.discount_amount_type !== 'percentage' || value.discount_amount <= 100, {
      path: ['discount_amount'],
      error: 'must be at most 100 where it is a percentage',
    }),
  )

/** Stored as JSON text. */
const jsonList = z.pipe(
  listOf(z.json()),
  z.transform((list) => JSON.stringify(list)),
)

const artwork = z.strictObject({
  id,
  name: title,
  print_method: line,
  placements: jsonList,
  colors: jsonList,
  preview_url: orNull(oneLine(1, 2048)),
  status: line,
})

const order = z.strictObject({
  id,
  title,
  client_id: id,
  order_status_id: orNull(id),
  description: prose,
  start_date: orNull(oneLine(1, 64)),
  deadline: day,
  client_notes: prose,
  created_date: z.optional(date),
  created_at: z.optional(instant),
  updated_at: z.optional(instant),
  deleted: flag,
  invoice: orNull(invoice),
  artworks: listOf(artwork),
})

const price = orNull(decimals(2, 0, AMOUNT_MAX))
const catalogItem = z.strictObject({ id, title, description: prose, price, deleted: flag })

/** Stored as JSON text. */
const json = z.optional(
  z.json().check(
    z.refine((value) => Buffer.byteLength(JSON.stringify(value)) <= JSON_MAX_BYTES, 'must be at most 500 KB as JSON'),
    z.refine((value) => depthOf(value) <= JSON_MAX_DEPTH, `must be nested at most ${JSON_MAX_DEPTH} deep`),
  ),
)
const jsonObject = json.check(
  z.refine((value) => typeof (value ?? {}) === 'object' && !Array.isArray(value), 'must be an object or null'),
)
const threadId = oneLine(1, 255)

const threadContext = z.strictObject({
  thread_id: threadId,
  legacy_thread_id: orNull(threadId),
  sender_email: line,
  client_id: line,
  client_data: jsonObject,
  clients_data: json,
  orders_data: json,
  selected_order_id: line,
  participant_emails: json,
  participants_data: json,
  fetched_at: z.optional(instant),
  updated_at: z.optional(instant),
})

/** A seed file: the data of one company. */
const seedFile = z.strictObject({
  company,
  order_statuses: listOf(status),
  taxes: listOf(tax),
  clients: listOf(client),
  orders: listOf(order),
  catalog_items: listOf(catalogItem),
  thread_contexts: listOf(threadContext),
  integrations: z._default(integrationsFile, {}),
})

export type SeedFile = z.output<typeof seedFile>
/** A seed file as it is written: fields may be left out. */
export type SeedInput = z.input<typeof seedFile>

/** @throws CommandError when the file cannot be read, is not JSON or not valid */
export async function readSeedFile(path: string, name: string): Promise<SeedFile> {
  const content = await readFile(path, 'utf8').catch((error: unknown) => {
    const code = error instanceof Error && 'code' in error ? error.code : ''
    throw new CommandError(`${name}: ${code === 'ENOENT' ? 'no such file' : `cannot be read (${code})`}.`)
  })
  try {
    return checkSeed(JSON.parse(content.replace(/^\uFEFF/, '')), name)
  } catch (error) {
    // The message of a JSON error quotes the file, which may hold credentials.
    throw error instanceof SyntaxError ? new CommandError(`${name}: not valid JSON.`) : error
  }
}

/** @throws CommandError with the first issue and the number of the others */
export function checkSeed(value: unknown, name: string): SeedFile {
  const parsed = seedFile.safeParse(value)
  if (parsed.success) return parsed.data
  const issues = parsed.error.issues.map((issue) => {
    const isUnknown = issue.code === 'unrecognized_keys'
    const path = z.core.toDotPath([...issue.path, ...(isUnknown ? issue.keys.slice(0, 1) : [])] as (string | number)[])
    return `${path === '' ? 'the file' : `\`${path}\``} ${isUnknown ? 'is not a known field' : issue.message}`
  })
  throw new CommandError(describeIssues(name, issues))
}

export function describeIssues(name: string, [first, ...others]: string[]): string {
  return `${name}: ${first}${others.length > 0 ? ` (and ${others.length} more)` : ''}`
}

function depthOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  return 1 + Object.values(value).reduce((deepest, member) => Math.max(deepest, depthOf(member)), 0)
}
