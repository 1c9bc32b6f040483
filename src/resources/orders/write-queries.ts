import { sql } from 'drizzle-orm'
import type { RequestContext } from '../../kernel/api/context.ts'
import { type Actor, auditEntry } from '../../kernel/db/audit.ts'
import { orm, type Placeholders, prepare, prepareNamed } from '../../kernel/db/client.ts'
import { assignments } from '../../kernel/db/columns.ts'
import { failWhen, isOtherVersion } from '../../kernel/db/guards.ts'
import { type KeyName, resultStatement, type Write, writerOf } from '../../kernel/db/idempotency.ts'
import { accountingEvent } from '../../kernel/db/outbox.ts'
import { invoices, orders } from '../../kernel/db/schema.ts'
import { invalid, unusable } from '../../kernel/http/errors.ts'
import { versionsOf } from '../../kernel/http/etag.ts'
import type { OrderFields } from './contract.ts'
import type { NewItem } from './element-contract.ts'
import {
  byId,
  decodeLists,
  type ListJson,
  lineStatements,
  linesJson,
  storedLines,
  unknownLines,
} from './elements-sql.ts'
import { type ChangedRow, changedJson, decodeChange, type Lists } from './queries.ts'
import {
  allOf,
  assertPassed,
  type Column,
  columnValues,
  discountCheck,
  isAnyOrder,
  isInvoice,
  isItsInvoice,
  isLive,
  isOrder,
  NEXT_VERSION,
  outcomesOf,
  referenceChecks,
} from './write-sql.ts'

type Update = Placeholders<Actor | 'orderId' | 'operation' | 'action', Column | KeyName | 'items'>

const update = prepareNamed((p: Update) => {
  // Whether the order is deleted matters only to a change that does not say whether it is to be.
  const isDeleted = p.deleted !== undefined
  const isOne = isDeleted ? isAnyOrder(p) : isOrder(p)
  const isInvoiceOfIt = isDeleted ? isItsInvoice(p) : isInvoice(p)
  const checks = { ...referenceChecks(p), ...discountCheck(p, isInvoiceOfIt) }
  const owner = { companyId: p.companyId, invoice: sql`(SELECT id FROM invoices WHERE ${isInvoiceOfIt})` }
  const unknown = p.items && unknownLines(p.items, owner)
  const takesLines = unknown ? sql`EXISTS ${owner.invoice} AND NOT EXISTS (${unknown})` : sql`1`
  const isAllowed = sql`${allOf(checks)} AND EXISTS (SELECT 1 FROM orders WHERE ${isOne}) AND ${takesLines}`
  const values = { ...p, updated_at: p.now, version: NEXT_VERSION }
  const changed = changedJson(p, { outcomes: outcomesOf(checks), isDeleted })
  const lists = unknown
    ? sql`json(${storedLines(owner)}), json((SELECT json_group_array(key) FROM (${unknown})))`
    : sql`NULL`
  return {
    invoice: orm
      .update(invoices)
      .set(assignments(invoices, { ...p, updated_at: p.now }))
      .where(sql`${isInvoiceOfIt} AND ${isAllowed}`),
    ...(p.items && lineStatements(owner, byId(p.items), isAllowed)),
    order: orm.update(orders).set(assignments(orders, values)).where(sql`${isOne} AND ${isAllowed}`),
    event: accountingEvent(p, p.operation, sql`${p.orderId}`, isAllowed),
    audit: auditEntry(p, sql`${p.action}`, sql`${p.orderId}`, isAllowed),
    result: resultStatement(p, sql`json_array(json((${changed})), ${lists})`),
  }
})

/** A changed order, with the lists that were sent. */
export type Changed = ChangedRow & Partial<Pick<Lists, 'invoice_items' | 'payments'>>

/**
 * The change of an order: sets only the columns of the fields that are sent, so that concurrent updates of different
 * fields are all applied. Its result is undefined when the order does not exist; reading it throws an ApiError: 400 that
 * names each field that refers to what is not the company's, or makes the discount impossible; 409 for lines without an
 * invoice.
 */
export function changeOf(
  context: RequestContext,
  orderId: number,
  body: OrderFields,
  { action = 'order.update', itemsName = 'invoice_items' } = {},
): Write<Changed | undefined> {
  const { invoice_items: items, ...fields } = body
  const columns = columnValues(fields)
  const about = body.deleted ? { operation: 'delete', action: 'order.delete' } : { operation: 'update', action }
  const sent = { items: items && linesJson(items) }
  const { invoice, ...others } = update({ ...writerOf(context), ...columns, ...sent, ...about, orderId })
  const changesInvoice = Object.entries(columns).some(([name, value]) => value !== undefined && name in invoices)
  return guarded(context, orderId, {
    statements: changesInvoice ? { invoice, ...others } : others,
    // Lines without an id get one.
    isIdempotent: items === undefined,
    isDeletion: body.deleted === true && Object.keys(body).length === 1,
    read: (result) => {
      const [change, lines, unknown]: [unknown[] | null, ListJson, number[]] = JSON.parse(result ?? '[null]')
      if (!change) return undefined
      const row = decodeChange(change)
      assertPassed(row.outcomes)
      if (items === undefined) return row
      if (!row.invoice) throw unusable('invoice_missing')
      if (unknown.length > 0) {
        throw invalid(
          unknown.map((key) => ({ path: `${itemsName}.${key}.id`, message: 'is not a line of this invoice' })),
        )
      }
      return { ...row, ...decodeLists({ invoice_items: lines }) }
    },
  })
}

/** The replacement of all lines of an order's invoice: {@link changeOf} nothing else. */
export function replacementOf(context: RequestContext, orderId: number, items: NewItem[]) {
  return changeOf(context, orderId, { invoice_items: items }, { action: 'invoice_items.write', itemsName: 'items' })
}

const deletion = prepareNamed((p: Placeholders<Actor | 'orderId', KeyName>) => {
  const values = { updated_at: p.now, deleted: sql`1` }
  const invoice = sql`${isInvoice(p)} AND ${isLive(p)}`
  return {
    event: accountingEvent(p, 'delete', sql`${p.orderId}`, isLive(p)),
    audit: auditEntry(p, 'order.delete', sql`${p.orderId}`, isLive(p)),
    invoice: orm.update(invoices).set(assignments(invoices, values)).where(invoice),
    order: orm
      .update(orders)
      .set(assignments(orders, { ...values, version: NEXT_VERSION }))
      .where(isOrder(p)),
    result: resultStatement(p, sql`${changedJson(p, { isDeleted: true })} AND changes() > 0`),
  }
})

/** The deletion of an order. Its result is undefined when the order does not exist or is already deleted. */
export function deletionOf(context: RequestContext, orderId: number): Write<ChangedRow | undefined> {
  return guarded(context, orderId, {
    statements: deletion({ ...writerOf(context), orderId }),
    isDeletion: true,
    read: (result) => (result === null ? undefined : decodeChange(result)),
  })
}

const versionGuard = prepare((p: Placeholders<'companyId' | 'orderId' | 'versions'>) =>
  failWhen(isOtherVersion(p.versions), sql`orders`, isAnyOrder(p)),
)

/** The write of an order, which fails for another version than the request's `If-Match` names. */
export function guarded<T>(context: RequestContext, orderId: number, write: Write<T>): Write<T> {
  const versions = versionsOf(context.ifMatch)
  if (versions === null) return write
  const guard = versionGuard({ companyId: context.companyId, orderId, versions })
  // Written once, the version is another.
  return { ...write, statements: { guard, ...write.statements }, isIdempotent: false }
}
