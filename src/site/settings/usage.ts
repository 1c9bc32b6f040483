import type { ItemOf } from './api.ts'
import { count, el, row, table } from './dom.ts'
import { type Action, input, text } from './form.ts'
import { type Scope, showParts, type View } from './view.ts'

type Hour = ItemOf<'GET /usage'>

const DAY_AND_CLOCK = new Intl.DateTimeFormat('en', {
  month: 'short',
  day: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
  hourCycle: 'h23',
})

export const usage: View = {
  id: 'usage',
  title: 'Usage',
  lead: 'Of all tokens of the company in the last 24 hours, and what it stores. Refused are requests beyond the rate limit.',
  async load(scope) {
    const { call, isOwner } = scope
    const [{ data: counted, totals, incomplete }, company] = await Promise.all([
      call('GET /usage', { query: { hours: 24 } }),
      call('GET', {}),
    ])
    // The API counts refused requests apart.
    const hours = counted.map((hour) => ({ ...hour, requests: hour.requests + hour.refused }))
    const sent = totals.requests + totals.refused
    const figures = {
      Requests: number(sent),
      Refused: `${number(totals.refused)}${share(totals.refused, sent)}`,
      'Database time': duration(totals.database_ms),
      'Stored mail': stored(company.mail_bytes, company.mail_quota_bytes),
      'Other stored data': stored(company.stored_bytes, company.storage_quota_bytes),
      Currency: company.currency,
    }
    const shown = Object.entries(figures).map(([label, value]) => el('div', el('dt', label), el('dd', value)))
    return [
      incomplete && el('p', { class: 'problem' }, 'Some counters could not be read: the figures are too low.'),
      el('dl', { class: 'figures' }, shown),
      showParts(scope, [isOwner && changeCurrency(scope, company.currency)]),
      tableOf(hours),
    ]
  },
}

const changeCurrency = ({ call }: Scope, value: string): Action => ({
  label: 'Change currency',
  submit: 'Save',
  content: () => [
    input(
      'Currency',
      { name: 'currency', required: true, pattern: '[A-Z]{3}', maxlength: 3, value },
      'Three capital letters, such as EUR (ISO 4217). Amounts are not converted.',
    ),
  ],
  send: (data) => call('PUT /currency', { body: { currency: text(data, 'currency') } }),
  done: 'The currency was changed.',
})

const number = (value: number) => value.toLocaleString('en')
/** Formats a part of a whole: ` (0.6%)`, or nothing where there is no whole. */
const share = (part: number, whole: number) => (whole > 0 ? ` (${((100 * part) / whole).toFixed(1)}%)` : '')

/** Formats the use of a quota: `12.3 MB (0.6%)`. */
function stored(bytes: number, quota: number): string {
  return `${(bytes / 1e6).toLocaleString('en', { maximumFractionDigits: 1 })} MB${share(bytes, quota)}`
}

function duration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`
  return ms < 60_000 ? `${(ms / 1_000).toFixed(1)} s` : `${(ms / 60_000).toFixed(1)} min`
}

function tableOf(hours: Hour[]): HTMLElement {
  const bar = (hour: Hour, figure: 'requests' | 'database_ms') =>
    el('meter', { value: hour[figure], max: Math.max(...hours.map((each) => each[figure]), 1), 'aria-hidden': 'true' })
  const rows = hours.toReversed().map((hour) => {
    const shown = el('time', { datetime: hour.hour }, DAY_AND_CLOCK.format(new Date(hour.hour)))
    const requests = [number(hour.requests), bar(hour, 'requests')]
    const time = [duration(hour.database_ms), bar(hour, 'database_ms')]
    return row(el('th', { scope: 'row' }, shown), requests, number(hour.refused), time)
  })
  const caption = `Usage of ${count(hours.length, 'hour')}, newest first`
  return table(['Hour', 'Requests', 'Refused', 'Database time'], el('tbody', rows), caption)
}
