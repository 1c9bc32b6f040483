import { isoTime } from '../http/contract.ts'
import type { HeldCompany, NoticeRow } from './accounting-notices.ts'

const HEADINGS = ['ID', 'COMPANY', 'ORDER', 'CHANGE', 'STATE', 'TRIES', 'NEXT TRY', 'LAST ERROR']

/** A table for people, below it what holds companies up. */
export function formatNotices(rows: NoticeRow[], total: number, held: HeldCompany[], now: number): string {
  const lines =
    rows.length === 0 ? ['No notices.'] : alignColumns([HEADINGS, ...rows.map((row) => toCells(row, held, now))])
  if (total > rows.length) lines.push(`… and ${total - rows.length} more.`)
  return [...lines, ...held.map(describeHeld)].map((line) => `${line}\n`).join('')
}

function toCells(row: NoticeRow, held: HeldCompany[], now: number): string[] {
  return [
    String(row.id),
    String(row.company_id),
    String(row.order_id),
    row.operation,
    row.state === 'sent' ? 'pending' : row.state,
    String(row.attempts),
    describeNextTry(row, held, now),
    row.last_error?.replaceAll(/\s+/g, ' ') ?? '-',
  ]
}

function describeNextTry(row: NoticeRow, held: HeldCompany[], now: number): string {
  if (row.state === 'parked' || row.state === 'dead') return '-'
  const company = held.find((each) => each.companyId === row.company_id)
  if (company?.isStopped) return 'stopped'
  const at = Math.max(row.next_attempt_at, company?.pausedUntil ?? 0)
  return at <= now ? 'now' : formatTime(at)
}

function describeHeld({ companyId, isStopped, pausedUntil, reason }: HeldCompany): string {
  const why = reason?.replaceAll(/\s+/g, ' ') ?? 'unknown reason'
  return isStopped
    ? `Company ${companyId} is stopped until its integration is changed (with npm run seed): ${why}`
    : `Company ${companyId} is paused until ${formatTime(pausedUntil)}: ${why}`
}

function formatTime(ms: number): string {
  return `${isoTime(ms).slice(0, 19)}Z`
}

function alignColumns(table: string[][]): string[] {
  const widths = HEADINGS.map((_, column) => Math.max(...table.map((row) => row[column]?.length ?? 0)))
  return table.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  )
}
