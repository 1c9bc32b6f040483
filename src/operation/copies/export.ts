import { isoTime } from '../../kernel/api/contract.ts'
import { columnsOf } from '../../kernel/db/columns.ts'
import type { CompanyContext } from '../../kernel/db/context.ts'
import { decompress, openObject } from '../../resources/mail/content.ts'
import { SUMMARY_FIELDS, TEXT_FIELDS } from '../../resources/mail/contract.ts'
import { objectText } from '../../resources/mail/responses.ts'
import { fromCents } from '../../resources/orders/totals.ts'
import { readCompany, readPage } from './read-queries.ts'
import { elements } from './seed/file.ts'
import { COLUMN_OF, JSON_FIELDS } from './seed/rows.ts'
import { CONTENT, type Key, type Row, TABLES, type Value } from './tables.ts'

export const SECTIONS = ['company', 'integrations', ...CONTENT] as const

type Section = (typeof SECTIONS)[number]

/** The fields of a thread before its arrays. Its messages are counted when it is imported. */
const THREAD_FIELDS = ['revision', 'content_revision', ...SUMMARY_FIELDS.filter((name) => name !== 'message_count')]

type Fields = Record<string, unknown>
type ExportContext = CompanyContext & { requestId?: string }

function presenterOf(table: string, fields: readonly string[]): (row: Row) => Fields {
  const columns = new Map(columnsOf({ table }).map((column) => [column.name, column]))
  const shown = fields.flatMap((field) => {
    const column = columns.get(COLUMN_OF[field] ?? field)
    if (!column) return []
    const isAmount = /_(cents|hundredths)$/.test(column.name)
    const isTime = column.dataType === 'number' && field.endsWith('_at')
    const show = (value: Value): unknown => {
      if (value === null) return null
      if (isAmount) return fromCents(Number(value))
      if (JSON_FIELDS.has(field)) return JSON.parse(String(value))
      return isTime ? isoTime(Number(value)) : column.mapFromDriverValue(value)
    }
    return [{ field, name: column.name, show }]
  })
  return (row) => Object.fromEntries(shown.map(({ field, name, show }) => [field, show(row[name] ?? null)]))
}

const presenters = Object.fromEntries(
  Object.entries(elements).map(([table, { shape }]) => [table, presenterOf(table, Object.keys(shape))]),
)

const present = (table: string, row: Row): Fields => presenters[table]?.(row) ?? {}

export const line = (type: string, data: object) => `${JSON.stringify({ type, data })}\n`

type ChildrenOf = (table: string, owner: Row) => Row[]

/**
 * Reads the page of a section after a key, which is empty at the beginning.
 *
 * @returns its lines in few pieces, since each is written by itself, and the key of the next page; null at the end
 */
export async function exportPage(context: ExportContext, files: R2Bucket, section: Section, after: Key) {
  const plan = TABLES.find(({ name }) => name === section)
  if (!plan) {
    const { company } = await readCompany(context)
    return { next: null, pieces: company ? [line(section, present('companies', company))] : [] }
  }
  // Whole rows, but for credentials.
  const whole = { ...plan, without: ['credentials'] }
  const { rows, tables, next } = await readPage(context, whole, after.length > 0 ? after : null)
  const read = new Map(
    tables.map(({ plan: { name, owner }, rows }) => [name, Map.groupBy(rows, (row) => owner && row[owner])]),
  )
  const childrenOf: ChildrenOf = (table, owner) => read.get(table)?.get(owner.id) ?? []
  if (section === 'email_threads') return { next, pieces: threadLines(context, files, rows, childrenOf) }
  const show = (row: Row) => {
    if (section === 'integrations') return presentIntegration(row)
    return section === 'orders' ? presentOrder(row, childrenOf) : present(section, row)
  }
  return { next, pieces: [rows.map((row) => line(section, show(row))).join('')] }
}

/** Exports omit credentials, so the result cannot be seeded as it is. */
function presentIntegration({ kind, base_url, enabled, settings }: Row) {
  const address = kind === 'storage' ? { endpoint: base_url } : { base_url }
  return { [String(kind)]: { enabled: enabled === 1, ...address, ...JSON.parse(String(settings)), credentials: {} } }
}

function presentOrder(order: Row, childrenOf: ChildrenOf) {
  const list = (table: string, owner: Row) => childrenOf(table, owner).map((row) => present(table, row))
  const byPosition = (a: Fields, b: Fields) => Number(a.position) - Number(b.position) || Number(a.id) - Number(b.id)
  const [invoice = null] = childrenOf('invoices', order).map((row) => {
    const items = list('invoice_items', row).sort(byPosition)
    return { ...present('invoices', row), items, payments: list('payments', row) }
  })
  return { ...present('orders', order), invoice, artworks: list('artworks', order) }
}

/**
 * Yields the lines of threads; their texts and arrays are the JSON that was sent, without its line breaks. A thread whose
 * content is lost has no messages.
 */
async function* threadLines(
  { companyId: company_id, requestId }: ExportContext,
  files: R2Bucket,
  rows: readonly Row[],
  childrenOf: ChildrenOf,
): AsyncGenerator<string | Uint8Array> {
  let text = ''
  for (const row of rows) {
    const shown = Object.fromEntries(THREAD_FIELDS.map((name) => [name, row[name] ?? null]))
    const members = objectText({ ...shown, deleted: row.deleted === 1 }, TEXT_FIELDS).slice(0, -1)
    text += `{"type":"email_threads","data":${members}`
    // An object with another hash is of content that was replaced. One that is replaced by now stays in R2.
    const content_hash = String(row.content_hash)
    const object = childrenOf('email_thread_objects', row).find((each) => each.content_hash === content_hash)
    const stored = typeof row.content === 'string' ? [Uint8Array.fromBase64(row.content)] : null
    const content = stored ?? (await openObject(files, { id: String(object?.id), company_id, content_hash }, requestId))
    if (!content) text += ',"messages":[]'
    else {
      yield `${text},`
      text = ''
      // JSON has bytes below a space only between its tokens, as white space: a line feed would end the line.
      for await (const chunk of decompress(content)) {
        for (let at = 0; at < chunk.length; at++) if ((chunk[at] ?? 0) < 0x20) chunk[at] = 0x20
        yield chunk
      }
    }
    text += '}}\n'
  }
  yield text
}
