import { isoTime } from '../../kernel/api/contract.ts'
import { NESTED } from './context-input.ts'
import type { ThreadContextRow } from './context-queries.ts'
import { SUMMARY_FIELDS, TEXT_FIELDS } from './contract.ts'
import type { ThreadSummaryRow } from './queries.ts'

export const HEADERS = { 'Content-Type': 'application/json', 'Cache-Control': 'private, no-store' }

export function jsonResponse(text: string): Response {
  return new Response(text, { headers: HEADERS })
}

export function listResponse(elements: readonly string[], pagination: object): Response {
  return jsonResponse(`{"data":[${elements.join(',')}],"pagination":${JSON.stringify(pagination)}}`)
}

export const contextText = (row: ThreadContextRow): string => objectText(row, NESTED)

export const summaryText = (row: ThreadSummaryRow): string =>
  objectText(Object.fromEntries(SUMMARY_FIELDS.map((name) => [name, row[name]])), TEXT_FIELDS)

/** Builds the JSON of a row. Columns that hold JSON are sent unchanged. */
export function objectText(row: object, jsonColumns: readonly string[]): string {
  const members = Object.entries(row).map(([name, value]) => {
    if (value !== null && jsonColumns.includes(name)) return `"${name}":${value}`
    return `"${name}":${JSON.stringify(value !== null && name.endsWith('_at') ? isoTime(value) : value)}`
  })
  return `{${members.join(',')}}`
}
