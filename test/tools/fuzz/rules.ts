import fc from 'fast-check'
import { readSampleSeed } from '../../../src/cli/sample-company.ts'
import { checkSeed } from '../../../src/cli/seed-file.ts'
import type { Json } from '../../../src/site/reference/json.ts'

/*
 * What the description cannot say and the fuzzer must know, as data.
 */

/** Rules of the service beyond the schemas: a valid request may be refused with 400 if each of its issues is here. */
export const RULES_BEYOND_SCHEMAS: readonly { operations: string[]; path: RegExp; message: RegExp; because: string }[] =
  [
    {
      operations: ['createOrder', 'putOrder', 'updateOrder'],
      path: /^(client_id|status_id|tax_id)$/,
      message: /must be (a client|an order status|a tax) of the company/,
      because: 'it refers to a row, which must be the company’s',
    },
    {
      operations: ['createOrder', 'putOrder', 'updateOrder'],
      path: /^discount_amount(_type)?$/,
      message: /as a percentage|at most 2 decimals/,
      because: 'it depends on another field or on what is stored; validators miscount multiples of 0.01',
    },
    {
      operations: ['readProduct'],
      path: /^(style|sku|styleId|styleid|id)$/,
      message: /is required|must not contain a comma|must not consist of dots only/,
      because: 'it depends on the source in the path',
    },
    {
      operations: ['presignUpload'],
      path: /^fileName$/,
      message: /must end in a file name/,
      because: 'it counts behind the last slash, in normalised form and in bytes',
    },
    {
      operations: ['putThreadContext'],
      path: /^(client_id|client_data\.id|(clients|orders)_data\.\d+\.id)$/,
      message: /must be (a client|an order) of the company, and not a deleted one/,
      because: 'it refers to a row, which must be the company’s',
    },
    {
      operations: ['putThreadContext'],
      path: /^(|selected_order_id|thread_id|client_data\.company_?[iI]d|(clients|orders)_data\.\d+\.company_?[iI]d)$/,
      message: /must link to something|must be the id of an element|is the thread_id of|must be the token’s company/,
      because: 'it depends on another field or on what is stored',
    },
    {
      operations: ['putThreadContext', 'listThreadContexts'],
      path: /(^|[._])(id|client_id|order_id|selected_order_id)$/,
      message: /must be a positive integer|must be greater than 0|at most 9007199254740991/,
      because: 'a string of digits has no pattern that says how large the number is',
    },
    {
      operations: ['listClients', 'listOrders', 'listChanges', 'listEmailThreads', 'listThreadContexts'],
      path: /^(cursor|page|start|client_id|order_id)$/,
      message: /is not one of this query and company|must not be sent together|is required|is missing/,
      because: 'a cursor is signed, and some parameters exclude each other',
    },
    {
      operations: ['listOrders'],
      path: /^status$/,
      message: /must name each id only once|must be at most 9007199254740991/,
      because: 'a pattern can neither compare ids nor say how large one is',
    },
    {
      operations: ['createPayment', 'updatePayment', 'putInvoiceItems'],
      path: /^(amount|paid_at|items(\.\d+(\.(id|quantity|unit_price))?)?)$/,
      message: /at most [24] decimals|is not a line of|must be|must not/,
      because: 'it refers to a row, or to its product with another field; validators miscount multiples of 0.01',
    },
    {
      operations: ['createOrder', 'putOrder', 'updateOrder'],
      path: /^(invoice_items(\.\d+(\.(id|quantity|unit_price))?)?|payments\.\d+\.(amount|paid_at))$/,
      message: /at most [24] decimals|is not a line of|must be|must not/,
      because: 'the same of a list that is sent with its order',
    },
    {
      operations: ['listChanges'],
      path: /^per_page$/,
      message: /must be at most 100 with expand=object/,
      because: 'it depends on another parameter',
    },
  ]

/** Operations that random input seldom carries out: they need two ids that belong together, or a file that is stored. */
export const SELDOM_CARRIED_OUT: readonly string[] = [
  'createPayment',
  'deleteFile',
  'deletePayment',
  'listPayments',
  'listThreadContexts',
  'presignDownload',
  'putInvoiceItems',
  'readEmailThread',
  'updatePayment',
]

/** The status of a path parameter that does not fit; 404 unless it is here. */
export const BAD_PATH: Readonly<Record<string, number>> = {
  deleteEmailThread: 400,
  deleteThreadContext: 400,
  putClient: 400,
  putOrder: 400,
  putEmailThread: 400,
  putThreadContext: 400,
  readClientByExternalId: 400,
  readEmailThread: 400,
  readThreadContext: 400,
}

/** The bytes that a body may have; 1 MiB unless it is here. */
export const BODY_LIMIT_BYTES: Readonly<Record<string, number>> = {
  putEmailThread: 26_214_400,
  putThreadContext: 262_144,
}

/** Operations whose texts are kept as they are sent, lone surrogates too: their bodies hold somebody else's mail. */
export const KEEPS_LONE_SURROGATES: readonly string[] = ['putEmailThread']

const sample = checkSeed(readSampleSeed(Date.now()), 'The sample company')

/** Somewhat more rows than the sample company has: the fuzzer makes more. */
const MANY = 100

const account = fc.constantFrom('sales@shop.example', 'Sales@Shop.Example', 'other@shop.example')
const email = fc.constantFrom('new@fuzz.example', 'NEW@FUZZ.EXAMPLE', ...textsOf(sample.clients, 'email'))
const threadId = fc.constantFrom(
  't1',
  't2',
  't:4=+-_.',
  ...textsOf(sample.thread_contexts, 'legacy_thread_id').slice(0, 3),
)

const unitPrice = fc.integer({ min: 0, max: 10_000 }).map((hundredths) => hundredths / 100)
const quantity = fc.integer({ min: 1, max: 100 })
const line = fc.record(
  { title: fc.constantFrom('Caps', '=1+1', 'ﬁ ß İ', '🧵'), quantity, unit_price: unitPrice },
  { requiredKeys: ['title'] },
)

function textsOf<Name extends string>(rows: { [K in Name]?: string | null | undefined }[], name: Name): string[] {
  return rows.flatMap((row) => row[name] ?? [])
}

/** Values of fields, by name, with which a request gets further than to the first lookup. The schema's own come too. */
export const PREFERRED: Readonly<Record<string, fc.Arbitrary<Json>>> = {
  client_id: fc.integer({ min: 1, max: MANY }),
  status_id: fc.integer({ min: 1, max: 12 }),
  tax_id: fc.constantFrom(0, 1, 2, 3, null),
  discount_amount: fc.integer({ min: 0, max: 10_000 }).map((hundredths) => hundredths / 100),
  amount: fc.integer({ min: 1, max: 10_000 }).map((hundredths) => hundredths / 100),
  unit_price: unitPrice,
  quantity,
  // Lines without an `id`, which must be of the same invoice; none may come with a deletion.
  invoice_items: fc.array(line, { maxLength: 2 }),
  deleted: fc.constant(false),
  account_email: account,
  email,
  legacyThreadId: threadId,
}

/** The same for what stands in a path or query. */
export const PREFERRED_TEXT: Readonly<Record<string, fc.Arbitrary<string>>> = {
  id: fc.oneof({ weight: 3, arbitrary: fc.integer({ min: 1, max: MANY }).map(String) }, email),
  orderId: fc.integer({ min: 1, max: MANY }).map(String),
  client_id: fc.integer({ min: 1, max: MANY }).map(String),
  status: fc.integer({ min: 1, max: 12 }).map(String),
  legacyThreadId: threadId,
  account_email: account,
  email,
  style: fc.constantFrom('PC61', 'pc61 ', 'ST350', '1', 'nothing'),
  styleId: fc.constantFrom('1', '2', '999999'),
  sku: fc.constantFrom('B00010000', 'nothing'),
  q: fc.constantFrom('cotton tee', 'PC61', 'crew', 'a', '555 01', '"'),
  include: fc.constantFrom('local', 'local,lines', ' supplier_a , supplier_b', ''),
}
