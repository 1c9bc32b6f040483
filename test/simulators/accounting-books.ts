import { createHash } from 'node:crypto'
import { ITEM_ID } from './accounting-data.ts'

type Fields = Record<string, unknown>

export interface StoredInvoice extends Fields {
  Id: string
  SyncToken: string
}

/** The books of one company. Plain JSON, so that tests can compare it. */
export interface Books {
  invoices: Record<string, StoredInvoice>
  /** Ids of invoices that were voided (still there) and that were deleted (gone). */
  voided: string[]
  deleted: string[]
  customers: Record<string, { Id: string; SyncToken: string; DisplayName: string; PrimaryEmailAddr?: unknown }>
  closedUntil: string
  nextId: number
  /** The first answer to each request id, and a digest of what was asked. */
  answers: Record<string, { digest: string; status: number; body: string }>
  /** Every change that was carried out, in order. */
  changes: { operation: 'create' | 'update' | 'void' | 'delete' | 'customer'; id: string; requestId: string | null }[]
  /** Request ids that came again with another content: a fault of the client. */
  misused: string[]
}

export function openBooks(): Books {
  return {
    invoices: {},
    voided: [],
    deleted: [],
    customers: {},
    closedUntil: '',
    nextId: 1,
    answers: {},
    changes: [],
    misused: [],
  }
}

/** Refuses a call with one of the protocol's codes. */
export class Refusal extends Error {
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

export function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16)
}

export function createInvoice(books: Books, fields: Fields): StoredInvoice {
  const { sparse: _sparse, Id: _id, SyncToken: _token, ...own } = fields
  const invoice: StoredInvoice = { ...own, Id: String(books.nextId), SyncToken: '0' }
  const checked = checkInvoice(books, invoice)
  books.nextId += 1
  books.invoices[checked.Id] = checked
  return checked
}

/** Without `sparse: true` every field that is left out becomes null, as the true system does. */
export function updateInvoice(books: Books, fields: Fields): StoredInvoice {
  const stored = findCurrent(books, fields)
  if (books.voided.includes(stored.Id)) throw new Refusal('6000', 'A voided invoice cannot be changed')
  const { sparse, ...sent } = fields
  const kept = sparse === true ? stored : Object.fromEntries(Object.keys(stored).map((name) => [name, null]))
  return replace(books, checkInvoice(books, { ...kept, ...sent, Id: stored.Id, SyncToken: rise(stored) }))
}

export function voidInvoice(books: Books, fields: Fields): StoredInvoice {
  const stored = findCurrent(books, fields)
  const lines = readList(stored.Line).map((line) => ({ ...line, Amount: 0 }))
  if (!books.voided.includes(stored.Id)) books.voided.push(stored.Id)
  const emptied = { TotalAmt: 0, Balance: 0, TxnTaxDetail: { TotalTax: 0 }, Line: lines, PrivateNote: 'Voided' }
  return replace(books, { ...stored, ...emptied, SyncToken: rise(stored) })
}

export function deleteInvoice(books: Books, fields: Fields): { Id: string; status: string } {
  const { Id } = findCurrent(books, fields)
  removeInvoice(books, Id)
  return { Id, status: 'Deleted' }
}

export function removeInvoice(books: Books, id: string): void {
  delete books.invoices[id]
  books.deleted.push(id)
}

export function editByHand(books: Books, id: string, fields: Fields): void {
  const stored = books.invoices[id]
  if (stored) books.invoices[id] = { ...stored, ...fields, Id: id, SyncToken: rise(stored) }
}

export function readInvoice(books: Books, id: string): StoredInvoice {
  const invoice = books.invoices[id]
  if (!invoice) throw new Refusal('610', 'Object Not Found')
  return invoice
}

export function createCustomer(books: Books, fields: Fields): Books['customers'][string] {
  const { DisplayName: name, PrimaryEmailAddr: email } = fields
  if (typeof name !== 'string' || name === '') throw new Refusal('2020', 'Required param missing: DisplayName')
  if (name.length > 500) throw new Refusal('2050', 'DisplayName is too long')
  const taken = Object.values(books.customers).some((each) => each.DisplayName.toLowerCase() === name.toLowerCase())
  if (taken) throw new Refusal('6240', 'The name supplied already exists')
  const Id = String(books.nextId)
  books.nextId += 1
  const customer = { Id, SyncToken: '0', DisplayName: name, ...(email ? { PrimaryEmailAddr: email } : {}) }
  books.customers[Id] = customer
  return customer
}

/** Runs `select * from Entity where Field = 'text'`, the only query there is. Text is compared without case. */
export function runQuery(books: Books, query: string): Record<string, unknown> {
  const parts = /^\s*select\s+\*\s+from\s+(\w+)\s+where\s+(\w+)\s*=\s*'((?:[^'\\]|\\.)*)'\s*$/is.exec(query)
  if (!parts) throw new Refusal('4000', 'Error parsing query')
  const [, entity = '', field = '', literal = ''] = parts
  const wanted = literal.replace(/\\(.)/gs, '$1').toLowerCase()
  const rows: Fields[] =
    entity === 'Invoice' ? Object.values(books.invoices) : entity === 'Customer' ? Object.values(books.customers) : []
  const found = rows.filter((row) => String(row[field] ?? '').toLowerCase() === wanted)
  return found.length > 0 ? { [entity]: found, startPosition: 1, maxResults: found.length } : {}
}

function findCurrent(books: Books, fields: Fields): StoredInvoice {
  const { Id, SyncToken } = fields
  if (typeof Id !== 'string' || Id === '') throw new Refusal('2020', 'Required param missing: Id')
  if (typeof SyncToken !== 'string') throw new Refusal('2020', 'Required param missing: SyncToken')
  const stored = readInvoice(books, Id)
  if (stored.SyncToken !== SyncToken) throw new Refusal('5010', 'Stale Object Error')
  checkPeriod(books, stored)
  return stored
}

function replace(books: Books, invoice: StoredInvoice): StoredInvoice {
  books.invoices[invoice.Id] = invoice
  return invoice
}

function rise(invoice: StoredInvoice): string {
  return String(Number(invoice.SyncToken) + 1)
}

function checkPeriod(books: Books, invoice: Fields): void {
  if (String(invoice.TxnDate ?? '9999') <= books.closedUntil) throw new Refusal('6210', 'The period is closed')
}

function checkInvoice(books: Books, invoice: StoredInvoice): StoredInvoice {
  const { DocNumber, PrivateNote, CustomerRef, TxnDate, DueDate } = invoice
  const customerId = readFields(CustomerRef).value
  if (typeof customerId !== 'string') throw new Refusal('2020', 'Required param missing: CustomerRef')
  if (!books.customers[customerId]) throw new Refusal('2500', 'Invalid Reference Id: CustomerRef')
  if (String(DocNumber ?? '').length > 21) throw new Refusal('2050', 'DocNumber is too long')
  if (String(PrivateNote ?? '').length > 4_000) throw new Refusal('2050', 'PrivateNote is too long')
  for (const date of [TxnDate, DueDate]) if (date != null && !isDate(date)) throw new Refusal('6000', 'Invalid date')
  checkPeriod(books, invoice)
  const same = Object.values(books.invoices).some((each) => each.DocNumber === DocNumber && each.Id !== invoice.Id)
  if (DocNumber != null && same) throw new Refusal('6140', 'Duplicate Document Number Error')

  const lines = readList(invoice.Line)
  const sales = lines.filter((line) => line.DetailType === 'SalesItemLineDetail')
  const discounts = lines.filter((line) => line.DetailType === 'DiscountLineDetail')
  if (sales.length === 0) throw new Refusal('2020', 'Required param missing: Line')
  if (sales.length + discounts.length < lines.length || discounts.length > 1) {
    throw new Refusal('6000', 'Unsupported line')
  }
  const subtotal = sales.reduce((sum, line) => sum + checkSale(line), 0n)
  const discount = discounts.reduce((sum, line) => sum + readDiscount(line, subtotal), 0n)
  const tax = readTax(invoice.TxnTaxDetail)
  const total = subtotal - discount + tax
  if (total < 0n) throw new Refusal('6000', 'The total is negative')
  return { ...invoice, TotalAmt: Number(total) / 100, Balance: Number(total) / 100 }
}

/** The line's amount in cents. */
function checkSale(line: Fields): bigint {
  const { ItemRef, Qty, UnitPrice, TaxCodeRef } = readFields(line.SalesItemLineDetail)
  const amount = readNumber(line.Amount, 'Amount')
  if (readFields(ItemRef).value !== ITEM_ID) throw new Refusal('2500', 'Invalid Reference Id: ItemRef')
  const taxCode = readFields(TaxCodeRef).value
  if (taxCode !== 'TAX' && taxCode !== 'NON') throw new Refusal('2500', 'Invalid Reference Id: TaxCodeRef')
  if (String(line.Description ?? '').length > 4_000) throw new Refusal('2050', 'Description is too long')
  if (Qty !== undefined || UnitPrice !== undefined) {
    const quantity = readNumber(Qty, 'Qty')
    const price = readNumber(UnitPrice, 'UnitPrice')
    if (quantity.digits * price.digits * amount.scale !== amount.digits * quantity.scale * price.scale) {
      throw new Refusal('6070', 'Amount is not equal to UnitPrice * Qty')
    }
  }
  return toCents(amount)
}

function readDiscount(line: Fields, subtotal: bigint): bigint {
  const detail = readFields(line.DiscountLineDetail)
  if (detail.PercentBased === true) {
    const { digits, scale } = readNumber(detail.DiscountPercent, 'DiscountPercent')
    return divideHalfUp(subtotal * digits, scale * 100n)
  }
  // A percentage sent beside the amount wins, even when it is 0.
  return detail.DiscountPercent === 0 ? 0n : toCents(readNumber(line.Amount, 'Amount'))
}

function readTax(detail: unknown): bigint {
  const { TotalTax } = readFields(detail)
  return TotalTax === undefined ? 0n : toCents(readNumber(TotalTax, 'TotalTax'))
}

interface Decimal {
  digits: bigint
  scale: bigint
}

function readNumber(value: unknown, name: string): Decimal {
  if (value === undefined || value === null) throw new Refusal('2020', `Required param missing: ${name}`)
  const [, whole, fraction = ''] = /^(-?\d+)(?:\.(\d+))?$/.exec(String(value)) ?? []
  if (typeof value !== 'number' || whole === undefined) throw new Refusal('2050', `Invalid number: ${name}`)
  return { digits: BigInt(whole + fraction), scale: 10n ** BigInt(fraction.length) }
}

function toCents({ digits, scale }: Decimal): bigint {
  if ((digits * 100n) % scale !== 0n) throw new Refusal('2050', 'Amounts have at most two decimals')
  return (digits * 100n) / scale
}

function divideHalfUp(amount: bigint, divisor: bigint): bigint {
  const shifted = 2n * amount + divisor
  const rest = ((shifted % (2n * divisor)) + 2n * divisor) % (2n * divisor)
  return (shifted - rest) / (2n * divisor)
}

function isDate(value: unknown): boolean {
  if (typeof value !== 'string' || !/^\d{4}-\d\d-\d\d$/.test(value)) return false
  const time = Date.parse(`${value}T00:00:00Z`)
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(value)
}

function readFields(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? { ...value } : {}
}

function readList(value: unknown): Fields[] {
  return Array.isArray(value) ? value.map(readFields) : []
}
