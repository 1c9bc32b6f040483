import { getTableColumns, getTableName, is } from 'drizzle-orm'
import { SQLiteText } from 'drizzle-orm/sqlite-core'
import { describe, expect, it } from 'vitest'
import { tableOf } from '../../../src/kernel/db/columns.ts'
import * as schema from '../../../src/kernel/db/schema.ts'
import { seedFile } from '../../../src/operation/copies/seed/file.ts'
import { client } from '../../../src/resources/clients/contract.ts'
import { readOrder } from '../../../src/resources/orders/contract.ts'

/*
 * A column that is stored and neither returned nor restored from a seed is lost for the caller without an error. So each
 * column of what the API writes is in the response, in a seed file (which an export is), or is named here with its reason.
 */
const { clients, orders, invoices, invoiceItems, payments } = schema

/** Made from others, given out or counted by the service. */
const DERIVED = /^(company_id|search_text|\w+_key|phone_digits|text_bytes|stored_bytes)$/
/** Under another name or in another form. */
const wireNameOf = (column: string) =>
  column === 'discount_hundredths' ? 'discount_amount' : column.replace(/_cents$/, '')
/** Not in responses: a client's customer of the accounting system, and times of an invoice, which are those of its order. */
const NOT_RETURNED: Record<string, string[]> = {
  clients: ['accounting_customer_id', 'accounting_customer_linked'],
  invoices: ['created_at', 'updated_at'],
}
/** Not in a seed file: a company's rows there are of a first version, and parts stand within their owner. */
const NOT_SEEDED = ['version', 'updated_at', 'created_at', 'invoice_id', 'project_id']

interface Node {
  shape?: Record<string, unknown>
  element?: unknown
  innerType?: unknown
  in?: unknown
}

/** The fields of a schema's objects, through lists and what may be null or left out. */
function shapeOf(schema: unknown, ...path: string[]): Record<string, unknown> {
  const definition: Node = (schema as { _zod: { def: Node } })._zod.def
  if (definition.shape) {
    const [name, ...rest] = path
    return name === undefined ? definition.shape : shapeOf(definition.shape[name], ...rest)
  }
  return shapeOf(definition.element ?? definition.innerType ?? definition.in, ...path)
}

const TABLES = [
  [clients, client, ['clients']],
  [orders, shapeOf(readOrder.response).project, ['orders']],
  [invoices, shapeOf(readOrder.response).invoice, ['orders', 'invoice']],
  [invoiceItems, shapeOf(readOrder.response).invoice_items, ['orders', 'invoice', 'items']],
  [payments, shapeOf(readOrder.response).payments, ['orders', 'invoice', 'payments']],
] as const

describe.each(TABLES.map((each) => [getTableName(each[0]), ...each] as const))(
  'each column of %s',
  (name, table, response, path) => {
    const columns = Object.keys(getTableColumns(table)).filter((column) => !DERIVED.test(column))
    const missing = (fields: Record<string, unknown>, unless: string[]) =>
      columns.filter((column) => !unless.includes(column) && !(wireNameOf(column) in fields))

    it('is returned, or is named here', () => {
      expect(missing(shapeOf(response), NOT_RETURNED[name] ?? [])).toEqual([])
    })

    it('is in a seed file and so in an export, or is named here', () => {
      expect(missing(shapeOf(seedFile, ...path), NOT_SEEDED)).toEqual([])
    })
  },
)

/** Dates, words of a list, ids and hashes are in the constants of their tables. A thread's texts are in its `mail_bytes`. */
const IN_A_CONSTANT: Record<string, string[]> = {
  invoices: ['due_date', 'discount_amount_type', 'discount_type'],
  email_threads: ['id', 'content_hash', 'mail_thread_id', 'subject', 'snippet', 'mail_history_id', 'content'],
}

describe.each(Object.keys(schema.STORED_BYTES).map((name) => [name]))('each text column of %s', (name) => {
  it('is in the stored bytes, or is named here', () => {
    const sizes = [schema.TEXT_BYTES, schema.STORED_BYTES].map((by) => new Map(Object.entries(by)).get(name)).join()
    const texts = Object.values(getTableColumns(tableOf(name))).filter((column) => is(column, SQLiteText))
    const missing = texts.filter((column) => !new RegExp(`\\b${column.name}\\b`).test(sizes))
    expect(missing.map((column) => column.name)).toEqual(IN_A_CONSTANT[name] ?? [])
  })
})
