import { createHash } from 'node:crypto'
import { checkName, checkTexts, type Fields, Refusal, readFields, readList } from './accounting-fields.ts'
import { computeTotals, type TaxSettings } from './accounting-totals.ts'

export interface StoredInvoice extends Fields {
  Id: string
  SyncToken: string
}

export interface StoredCustomer extends Fields {
  Id: string
  SyncToken: string
  DisplayName: string
  /** False: it can be neither found nor billed, but its name stays taken. */
  Active: boolean
}

/** What the accounting system stores for one company. Plain JSON, so that tests can compare it. */
export interface Realm {
  invoices: Record<string, StoredInvoice>
  /** Ids of invoices that were voided (still there) and that were deleted (gone). */
  voided: string[]
  deleted: string[]
  customers: Record<string, StoredCustomer>
  /** Names of vendors and employees, which no customer may have. */
  otherNames: string[]
  taxes: TaxSettings
  closedUntil: string
  nextId: number
  /** The first response to each request id, and a digest of its request. */
  responses: Record<string, { digest: string; status: number; body: string }>
  /** Every change that was carried out, in order. */
  changes: { operation: 'create' | 'update' | 'void' | 'delete' | 'customer'; id: string; requestId: string | null }[]
  /** Request ids that were reused with another content: an error of the client. */
  misused: string[]
}

export function makeRealm(): Realm {
  return {
    invoices: {},
    voided: [],
    deleted: [],
    customers: {},
    otherNames: [],
    taxes: { codes: {}, automatedRate: null },
    closedUntil: '',
    nextId: 1,
    responses: {},
    changes: [],
    misused: [],
  }
}

export function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16)
}

export function createInvoice(realm: Realm, fields: Fields): StoredInvoice {
  const { sparse: _sparse, Id: _id, SyncToken: _token, ...own } = fields
  const invoice: StoredInvoice = { ...own, Id: String(realm.nextId), SyncToken: '0' }
  const checked = checkInvoice(realm, invoice)
  realm.nextId += 1
  realm.invoices[checked.Id] = checked
  return checked
}

/** Without `sparse: true` every field that is left out becomes null, as the true system does. */
export function updateInvoice(realm: Realm, fields: Fields): StoredInvoice {
  const stored = findCurrent(realm, fields)
  if (realm.voided.includes(stored.Id)) throw new Refusal('6000', 'A voided invoice cannot be changed')
  const { sparse, ...sent } = fields
  const base = sparse === true ? stored : Object.fromEntries(Object.keys(stored).map((name) => [name, null]))
  return replace(realm, checkInvoice(realm, { ...base, ...sent, Id: stored.Id, SyncToken: rise(stored) }))
}

export function voidInvoice(realm: Realm, fields: Fields): StoredInvoice {
  const stored = findCurrent(realm, fields)
  const lines = readList(stored.Line).map((line) => ({ ...line, Amount: 0 }))
  if (!realm.voided.includes(stored.Id)) realm.voided.push(stored.Id)
  const emptied = { TotalAmt: 0, Balance: 0, TxnTaxDetail: { TotalTax: 0 }, Line: lines, PrivateNote: 'Voided' }
  return replace(realm, { ...stored, ...emptied, SyncToken: rise(stored) })
}

export function deleteInvoice(realm: Realm, fields: Fields): { Id: string; status: string } {
  const { Id } = findCurrent(realm, fields)
  removeInvoice(realm, Id)
  return { Id, status: 'Deleted' }
}

export function removeInvoice(realm: Realm, id: string): void {
  delete realm.invoices[id]
  realm.deleted.push(id)
}

export function editByHand(realm: Realm, id: string, fields: Fields): void {
  const stored = realm.invoices[id]
  if (stored) realm.invoices[id] = { ...stored, ...fields, Id: id, SyncToken: rise(stored) }
}

export function readInvoice(realm: Realm, id: string): StoredInvoice {
  const invoice = realm.invoices[id]
  if (!invoice) throw new Refusal('610', 'Object Not Found')
  return invoice
}

export function createCustomer(realm: Realm, fields: Fields): StoredCustomer {
  checkTexts(fields)
  const { PrimaryEmailAddr: email } = fields
  const name = checkName(fields.DisplayName)
  if (String(readFields(email).Address ?? '').length > 100) throw new Refusal('2050', 'Address is too long')
  const names = [...Object.values(realm.customers).map((each) => each.DisplayName), ...realm.otherNames]
  if (names.some((each) => each.toLowerCase() === name.toLowerCase())) {
    throw new Refusal('6240', 'Another customer, vendor or employee is already using this name')
  }
  const Id = String(realm.nextId)
  realm.nextId += 1
  const customer = {
    Id,
    SyncToken: '0',
    DisplayName: name,
    Active: true,
    ...(email ? { PrimaryEmailAddr: email } : {}),
  }
  realm.customers[Id] = customer
  return customer
}

/**
 * Runs `select * from Entity where Field = 'text'`, or finds the numbers of the newest invoices: there are no other
 * queries. Text is compared without case; inactive customers are not found.
 */
export function runQuery(realm: Realm, query: string): Record<string, unknown> {
  const newest =
    /^\s*select DocNumber from Invoice orderby MetaData\.CreateTime desc maxresults (\d{1,3}|1000)\s*$/i.exec(query)
  if (newest) {
    const invoices = Object.values(realm.invoices).sort((a, b) => Number(b.Id) - Number(a.Id))
    const found = invoices.slice(0, Number(newest[1])).map(({ DocNumber }) => ({ DocNumber }))
    return found.length > 0 ? { Invoice: found, startPosition: 1, maxResults: found.length } : {}
  }
  const parts = /^\s*select\s+\*\s+from\s+(\w+)\s+where\s+(\w+)\s*=\s*'((?:[^'\\]|\\.)*)'\s*$/is.exec(query)
  if (!parts) throw new Refusal('4000', 'Error parsing query')
  const [, entity = '', field = '', literal = ''] = parts
  const wanted = literal.replace(/\\(.)/gs, '$1').toLowerCase()
  const rows: Fields[] =
    entity === 'Invoice' ? Object.values(realm.invoices) : entity === 'Customer' ? listActive(realm) : []
  const found = rows.filter((row) => String(row[field] ?? '').toLowerCase() === wanted)
  return found.length > 0 ? { [entity]: found, startPosition: 1, maxResults: found.length } : {}
}

function listActive(realm: Realm): StoredCustomer[] {
  return Object.values(realm.customers).filter((customer) => customer.Active)
}

function findCurrent(realm: Realm, fields: Fields): StoredInvoice {
  const { Id, SyncToken } = fields
  if (typeof Id !== 'string' || Id === '') throw new Refusal('2020', 'Required param missing: Id')
  if (typeof SyncToken !== 'string') throw new Refusal('2020', 'Required param missing: SyncToken')
  const stored = readInvoice(realm, Id)
  if (stored.SyncToken !== SyncToken) throw new Refusal('5010', 'Stale Object Error')
  checkPeriod(realm, stored)
  return stored
}

function replace(realm: Realm, invoice: StoredInvoice): StoredInvoice {
  realm.invoices[invoice.Id] = invoice
  return invoice
}

function rise(invoice: StoredInvoice): string {
  return String(Number(invoice.SyncToken) + 1)
}

function checkPeriod(realm: Realm, invoice: Fields): void {
  if (String(invoice.TxnDate ?? '9999') <= realm.closedUntil) throw new Refusal('6210', 'The period is closed')
}

function checkInvoice(realm: Realm, invoice: StoredInvoice): StoredInvoice {
  const { DocNumber, PrivateNote, CustomerRef, TxnDate, DueDate } = invoice
  checkTexts(invoice)
  const customerId = readFields(CustomerRef).value
  if (typeof customerId !== 'string') throw new Refusal('2020', 'Required param missing: CustomerRef')
  if (!realm.customers[customerId]?.Active) throw new Refusal('2500', 'Invalid Reference Id: CustomerRef')
  if (String(DocNumber ?? '').length > 21) throw new Refusal('2050', 'DocNumber is too long')
  if (String(PrivateNote ?? '').length > 4_000) throw new Refusal('2050', 'PrivateNote is too long')
  for (const date of [TxnDate, DueDate]) if (date != null && !isDate(date)) throw new Refusal('6000', 'Invalid date')
  checkPeriod(realm, invoice)
  const same = Object.values(realm.invoices).some((each) => each.DocNumber === DocNumber && each.Id !== invoice.Id)
  if (DocNumber != null && same) throw new Refusal('6140', 'Duplicate Document Number Error')

  const { tax, total } = computeTotals(invoice, realm.taxes)
  const TxnTaxDetail = { ...readFields(invoice.TxnTaxDetail), TotalTax: Number(tax) / 100 }
  return { ...invoice, TxnTaxDetail, TotalAmt: Number(total) / 100, Balance: Number(total) / 100 }
}

function isDate(value: unknown): boolean {
  if (typeof value !== 'string' || !/^\d{4}-\d\d-\d\d$/.test(value)) return false
  const time = Date.parse(`${value}T00:00:00Z`)
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(value)
}
