import * as z from 'zod/mini'
import {
  accountingId,
  id as anyId,
  currency,
  date,
  externalId,
  instant,
  oneLine,
  text,
  trimmed,
} from '../../../kernel/api/contract.ts'
import { QUOTA_MAX } from '../../../kernel/db/names.ts'
import { seeded as clientFields } from '../../../resources/clients/contract.ts'
import { legacyThreadId } from '../../../resources/files/contract.ts'
import { storable } from '../../../resources/mail/context-input.ts'
import {
  AMOUNT_MAX,
  decimals,
  discountAmountType,
  hasPossibleDiscount,
  hasPossibleTotal,
  paidAt,
} from '../../../resources/orders/bodies.ts'
import { bytesOf } from '../chunks.ts'
import { field, integrationsFile } from './integrations-file.ts'

/** Leaves room for ids that the API assigns above the highest one of a seed. */
const ID_MAX = 2 ** 48
/** Stays within the depth of JSON that SQLite reads. */
const JSON_MAX_DEPTH = 500

const orNull = <T extends z.ZodMiniType>(schema: T) => z._default(z.nullable(schema), null as never)

const listOf = <T extends z.ZodMiniType>(schema: T) => z._default(z.array(schema), [])

const idMaximum = z.maximum(ID_MAX, `must be at most ${ID_MAX}`)
export const id = anyId.check(idMaximum, z.meta({ maximum: ID_MAX }))
const flag = z._default(z.boolean(), false)
const title = trimmed(255)
const line = orNull(title)
const prose = orNull(text(0, 10_000))
const day = orNull(date)
const position = z.optional(z.int().check(z.minimum(0), z.maximum(1_000_000)))
/** The next number follows the highest one of up to 15 digits: another of 16 digits must not be in its way. */
const invoiceNumber = trimmed(64).check(
  z.refine((text) => !/^\d{15}$/.test(text) || Number(text) <= ID_MAX, `must be at most ${ID_MAX} if it has 15 digits`),
)
const money = decimals(2, -AMOUNT_MAX, AMOUNT_MAX)

const deleted = field('Hidden from lists, as if it had been deleted through the API.', flag)
const ownId = field('Your own id of it, unique in the company.', orNull(externalId))
const createdAt = field('When it was created. By default the time of loading.', z.optional(instant))
const updatedAt = field('When it was last changed. By default when it was created.', z.optional(instant))
const listPosition = field('Rises in the order of display. By default the place in this list, from 1.', position)
const version = field(
  'Raised by 1 with every change. By default 1.',
  z.optional(z.int().check(z.positive(), idMaximum)),
)
const counter = z.optional(z.int().check(z.nonnegative(), idMaximum))
const lastNumber = (noun: string) =>
  field(`New ids of ${noun}s are higher. By default the highest of this file.`, counter)

/** A setting of the company, which stays as it is where the file leaves it out. */
const quota = (description: string) =>
  field(`${description} 2 GiB in a new company.`, z.optional(z.int().check(z.nonnegative(), z.maximum(QUOTA_MAX))))

const company = z.strictObject({
  id: field('The id of the company, also for `npm run tokens -- create --company ID`.', id),
  name: field('The name of the company.', title),
  currency: field(
    'The currency of all amounts: three capital letters, such as an ISO 4217 code; not checked against the list. USD in a new company.',
    z.optional(currency),
  ),
  accounting_sync_enabled: field(
    'Sends orders to the accounting system unless a request says otherwise. Not in a new company.',
    z.optional(z.boolean()),
  ),
  suspended: field('Refuses every request of the company with 403.', z.optional(z.boolean())),
  mail_quota_bytes: quota('How many bytes of compressed mail the company may store.'),
  storage_quota_bytes: quota('How many bytes of all else the company may store in the database.'),
  created_at: createdAt,
  updated_at: updatedAt,
  last_client_id: lastNumber('client'),
  last_order_id: lastNumber('order'),
  last_invoice_id: lastNumber('invoice'),
  last_invoice_item_id: lastNumber('line'),
  last_payment_id: lastNumber('payment'),
  last_invoice_number: field('New invoices get higher numbers. By default the highest of this file, or 1000.', counter),
})

const status = z.strictObject({
  id: field('The id that orders refer to.', id),
  title: field('The name of the status.', title),
  color: field('A CSS color, such as `#2563eb`.', line),
  workflow_key: field('A stable name of the status for programs, such as `production`.', line),
  position: listPosition,
  is_default: field('Given to new orders without a status. At most one status has it.', flag),
  deleted,
})

const tax = z.strictObject({
  id: field('The id that invoices refer to.', id),
  name: field('The name of the tax.', title),
  rate: field('In percent, with at most 4 decimals.', decimals(4, 0, 100)),
  tax_code_id: field('The id of its tax code in the accounting system.', orNull(accountingId)),
  deleted,
})

const { accounting_sync_enabled, tax_exempt, tax_exempt_reason, deleted: deletedClient, ...ofContact } = clientFields
const client = z.strictObject({
  id: field('The id that orders refer to.', id),
  company_name: field('The name of the customer.', title),
  ...ofContact,
  accounting_customer_id: field(
    'The id of the customer in the accounting system. By default one is found or created by its name.',
    orNull(text(1, 64)),
  ),
  accounting_customer_linked: field(
    'Whether that customer stays for good. By default true where its id is given.',
    z.optional(z.boolean()),
  ),
  ...{ accounting_sync_enabled, tax_exempt, tax_exempt_reason, deleted: deletedClient },
  external_id: ownId,
  version,
  created_at: createdAt,
  updated_at: updatedAt,
})

const item = z
  .strictObject({
    id: field('The id of the line.', id),
    title: field('What is sold.', title),
    description: field('Further text.', prose),
    quantity: field('How many, with at most 4 decimals.', decimals(4, 0, 1_000_000)),
    unit_price: field('The price of one, with at most 2 decimals; negative for a rebate.', money),
    taxable: field('Whether the line is taxed.', z._default(z.boolean(), true)),
    supplier: field('The name of the supplier.', line),
    style: field('The style number of the garment.', line),
    color: field('The color of the garment.', line),
    size: field('The size of the garment.', line),
    sku: field("The supplier's number of the article.", line),
    position: listPosition,
    deleted: field('A deleted line is not loaded.', flag),
  })
  .check(hasPossibleTotal)

const loadedItems = z.pipe(
  listOf(item),
  z.transform((items) => items.filter((each) => !each.deleted)),
)

const payment = z.strictObject({
  id: field('The id of the payment.', id),
  amount: field('With at most 2 decimals; negative for a refund.', money),
  method: field('How it was paid, such as `card`.', line),
  paid_at: field('When it was paid: a date, or a date-time with an offset.', orNull(paidAt)),
  note: field('Further text.', prose),
})

const invoice = z
  .strictObject({
    id: field('The id of the invoice. It stays with its order.', id),
    number: field('Unique in the company. By default the next number.', z.optional(invoiceNumber)),
    due_date: field("When it is due. In a file the order's `deadline` does not set it; in the API it does.", day),
    tax_id: field('The id of a tax. 0 or null: no tax.', orNull(z.int().check(z.nonnegative(), idMaximum))),
    tax_exempt: field('Makes the tax 0.', flag),
    tax_exempt_reason: field('Why there is no tax.', orNull(trimmed(1000))),
    discount_amount: field(
      'In percent (at most 100) or in the currency, by `discount_amount_type`.',
      z._default(decimals(2, 0, AMOUNT_MAX), 0),
    ),
    discount_amount_type: field('The unit of the discount.', z._default(discountAmountType, 'percentage')),
    discount_type: field(
      'Whether the discount is taken off before or after the tax.',
      z._default(z.enum(['before_tax', 'after_tax']), 'before_tax'),
    ),
    deleted,
    created_at: field('When it was created. By default when its order was.', z.optional(instant)),
    updated_at: field('When it was last changed. By default when its order was.', z.optional(instant)),
    items: field('The lines of the invoice.', loadedItems),
    payments: field('What was paid.', listOf(payment)),
  })
  .check(hasPossibleDiscount())

/** A statement has a row as JSON and its JSON in that, up to twice as long: a row stays below the 2 MB of D1's values. */
const upTo = (maxKb: number) =>
  z.refine((value) => bytesOf(value) <= maxKb * 1_000, `must be at most ${maxKb} KB as JSON`)
/** JSON as it was parsed: Zod's own would drop `__proto__`. */
const shallow = z.unknown().check(storable(JSON_MAX_DEPTH))
const jsonList = z.pipe(
  z._default(z.pipe(shallow, z.array(z.unknown()).check(upTo(400))), []).check(z.meta({ type: 'array', items: {} })),
  z.transform((list) => JSON.stringify(list)),
)

const artwork = z.strictObject({
  id: field('The id of the artwork.', id),
  name: field('The name of the artwork.', title),
  print_method: field('How it is applied, such as `screen print`.', line),
  placements: field('Where it is applied, such as `["full back"]`; at most 400 KB.', jsonList),
  colors: field('Its colors, such as `["PMS 186 C"]`; at most 400 KB.', jsonList),
  preview_url: field('The address of a preview.', orNull(oneLine(2048))),
  status: field('Such as `draft` or `approved`.', line),
})

const order = z.strictObject({
  id: field('The id of the order.', id),
  title: field('The title of the order.', title),
  client_id: field('The id of a client of this file or of the database.', id),
  order_status_id: field('The id of a status of this file or of the database.', orNull(id)),
  description: field('What is to be made.', prose),
  start_date: field('When work begins, in any form; stored as written.', orNull(oneLine(64))),
  deadline: field('When it must be finished.', day),
  client_notes: field('Shown to the customer on the invoice.', prose),
  created_date: field('The date of the order. By default that of `created_at`.', z.optional(date)),
  created_at: field('When it was created. By default at the beginning of `created_date`.', z.optional(instant)),
  updated_at: updatedAt,
  deleted,
  external_id: ownId,
  version,
  invoice: field('The invoice of the order. Null: none.', orNull(invoice)),
  artworks: field('What is printed or embroidered.', listOf(artwork)),
})

const catalogItem = z.strictObject({
  id: field('The id of the item.', id),
  title: field('The name of the item, in which products are searched.', title),
  description: field('Further text.', prose),
  price: field('With at most 2 decimals.', orNull(decimals(2, 0, AMOUNT_MAX))),
  deleted,
})

const json = z.optional(shallow.check(upTo(500)))
const jsonObject = json.check(
  z.refine((value) => typeof (value ?? {}) === 'object' && !Array.isArray(value), 'must be an object or null'),
  z.meta({ type: ['object', 'null'] }),
)

const threadContext = z.strictObject({
  thread_id: field('The id of the thread in the mail system.', oneLine(255)),
  legacy_thread_id: field('The id by which the API finds the thread.', orNull(legacyThreadId)),
  sender_email: field('The email address of the sender.', orNull(trimmed(320))),
  client_id: field('The id of a client, as text.', line),
  client_data: field('The client as an object, with its `id`.', jsonObject),
  clients_data: field('A list of clients, each with its `id`.', json),
  orders_data: field('A list of orders, each with its `id`.', json),
  selected_order_id: field('The id of the order that was chosen, as text.', line),
  participant_emails: field('A list of email addresses.', json),
  participants_data: field('A list of participants.', json),
  fetched_at: field('When the context was read. By default the time of loading.', z.optional(instant)),
  updated_at: field('When the context was last changed. By default the time of loading.', z.optional(instant)),
})

/** The schemas of a seed file's elements, by the table that has them. */
export const elements = {
  companies: company,
  order_statuses: status,
  taxes: tax,
  clients: client,
  orders: order,
  invoices: invoice,
  invoice_items: item,
  payments: payment,
  artworks: artwork,
  catalog_items: catalogItem,
  thread_contexts: threadContext,
}

export const seedFile = z.strictObject({
  $schema: field('The JSON Schema of this file, for editors. It is not loaded.', z.optional(z.string())),
  company: field('The company.', company),
  order_statuses: field('The statuses that orders can have.', listOf(status)),
  taxes: field('The taxes that invoices can have.', listOf(tax)),
  clients: field('The customers. One that is in the database is not changed.', listOf(client)),
  orders: field('The orders. One that is in the database is not changed.', listOf(order)),
  catalog_items: field("The shop's own products.", listOf(catalogItem)),
  thread_contexts: field(
    'What mail threads are linked to: at most 900 KB each.',
    listOf(threadContext.check(upTo(900))),
  ),
  integrations: field('The connections to other systems.', z._default(integrationsFile, {})),
})

export type SeedFile = z.output<typeof seedFile>
/** A seed file as people write it, with optional fields. */
export type SeedInput = z.input<typeof seedFile>
