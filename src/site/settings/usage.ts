import type { ItemOf } from './api.ts'
import { count, el, fold, newId, row, svg, table } from './dom.ts'
import { type Action, input, text } from './form.ts'
import { type Scope, showParts, type View } from './view.ts'

type Hour = ItemOf<'GET /usage'>

const TIME = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' } as const
const CLOCK = new Intl.DateTimeFormat('en', TIME)
const DAY_AND_CLOCK = new Intl.DateTimeFormat('en', { month: 'short', day: 'numeric', ...TIME })
const CHART = { width: 800, narrowWidth: 340, height: 170, left: 48, bottom: 22, top: 8 }

export const usage: View = {
  id: 'usage',
  title: 'Usage',
  lead: 'Of all tokens of the company in the last 24 hours, and what it stores. Refused are requests beyond the rate limit.',
  async load(scope) {
    const { call, isOwner } = scope
    const [{ data: counted, totals, incomplete }, stored] = await Promise.all([
      call('GET /usage', { query: { hours: 24 } }),
      call('GET', {}),
    ])
    const data = counted.map(withRefused)
    const sent = totals.requests + totals.refused
    const refused = sent > 0 ? ` (${percent(totals.refused, sent)})` : ''
    const figures = {
      Requests: number(sent),
      Refused: `${number(totals.refused)}${refused}`,
      'Database time': duration(totals.database_ms),
      'Stored mail': share(stored.mail_bytes, stored.mail_quota_bytes),
      'Other stored data': share(stored.stored_bytes, stored.storage_quota_bytes),
      Currency: stored.currency,
    }
    const shown = Object.entries(figures).map(([label, value]) => el('div', el('dt', label), el('dd', value)))
    return [
      incomplete && el('p', { class: 'problem' }, 'Some counters could not be read: the figures are too low.'),
      el('dl', { class: 'figures' }, shown),
      showParts(scope, [isOwner && changeCurrency(scope, stored.currency)]),
      chart('Requests per hour', data, 'requests', number, 'refused'),
      chart('Database time per hour', data, 'database_ms', duration),
      fold('The figures as a table', tableOf(data)),
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

/** The API counts refused requests apart. */
const withRefused = (hour: Hour): Hour => ({ ...hour, requests: hour.requests + hour.refused })

const number = (value: number) => value.toLocaleString('en')
const percent = (part: number, whole: number) => `${((100 * part) / whole).toFixed(1)}%`

/** Formats the use of a quota: `12.3 MB (0.6%)`. */
function share(bytes: number, quota: number): string {
  const megabytes = (bytes / 1e6).toLocaleString('en', { maximumFractionDigits: 1 })
  return `${megabytes} MB${quota > 0 ? ` (${percent(bytes, quota)})` : ''}`
}

function duration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`
  return ms < 60_000 ? `${(ms / 1_000).toFixed(1)} s` : `${(ms / 60_000).toFixed(1)} min`
}

type Figure = Exclude<keyof Hour, 'hour'>

/** Draws one bar an hour; the `marked` part has another colour. */
function chart(title: string, hours: Hour[], figure: Figure, format: (value: number) => string, marked?: Figure) {
  const { height, left, bottom, top } = CHART
  // The text keeps its size on a narrow screen.
  const width = innerWidth < 760 ? CHART.narrowWidth : CHART.width
  const highest = Math.max(...hours.map((hour) => hour[figure]), 0)
  const limit = niceLimit(highest)
  const step = (width - left) / Math.max(hours.length, 1)
  const y = (value: number) => height - bottom - (value / limit) * (height - bottom - top)
  const bar = (value: number, x: number, name: string) =>
    value > 0 && svg('rect', { class: name, x, y: y(value), width: step - 2, height: y(0) - y(value), rx: 1.5 })
  const bars = hours.map((hour, index) => {
    const x = left + index * step + 1
    return [
      bar(hour[figure], x, 'bar'),
      marked && bar(hour[marked], x, 'bar marked'),
      index % 6 === 0 && svg('text', { x, y: height - 5 }, clock(hour.hour)),
    ]
  })
  const rules = [0, limit / 2, limit].map((value) => [
    svg('line', { class: 'rule', x1: left, x2: width, y1: y(value), y2: y(value) }),
    svg('text', { x: left - 6, y: y(value) + 4, 'text-anchor': 'end' }, format(value)),
  ])
  const titleId = newId()
  const peak = hours.find((hour) => hour[figure] === highest)
  const summary = highest === 0 || !peak ? 'None.' : `The most, ${format(highest)}, at ${clock(peak.hour)}.`
  const caption = el(
    'figcaption',
    el('h2', { id: titleId }, title),
    el('span', { class: 'quiet' }, summary),
    marked && el('span', { class: 'key' }, marked),
  )
  const attributes = { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-labelledby': titleId }
  return el('figure', caption, svg('svg', attributes, rules, bars))
}

/** Rounds up to 2, 4, 6, 10, 20, 40 …, so that its half is whole too. */
function niceLimit(value: number): number {
  const size = 10 ** Math.floor(Math.log10(Math.max(value, 1)))
  return ([2, 4, 6, 10].find((factor) => factor * size >= value) ?? 10) * size
}

function clock(iso: string): string {
  return CLOCK.format(new Date(iso))
}

function tableOf(hours: Hour[]): HTMLElement {
  const rows = hours.toReversed().map(({ hour, requests, refused, database_ms }) => {
    const shown = el('time', { datetime: hour }, DAY_AND_CLOCK.format(new Date(hour)))
    return row(el('th', { scope: 'row' }, shown), number(requests), number(refused), duration(database_ms))
  })
  const caption = `Usage of ${count(hours.length, 'hour')}, newest first`
  return table(['Hour', 'Requests', 'Refused', 'Database time'], el('tbody', rows), caption)
}
