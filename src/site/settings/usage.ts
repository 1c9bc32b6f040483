import { call, type ItemOf } from './api.ts'
import { field, openForm } from './dialog.ts'
import { button, count, el, newId, svg } from './dom.ts'
import { fold } from './list.ts'
import type { Scope, View } from './view.ts'

type Hour = ItemOf<'GET /companies/{company_id}/usage'>

const CLOCK = new Intl.DateTimeFormat('en', { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' })
const DAY_AND_CLOCK = new Intl.DateTimeFormat('en', {
  month: 'short',
  day: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
  hourCycle: 'h23',
})
const CHART = { width: 800, narrowWidth: 340, height: 170, left: 48, bottom: 22, top: 8 }

export const usage: View = {
  id: 'usage',
  title: 'Usage',
  lead: 'Of all tokens of the company in the last 24 hours, and what it stores. Refused are requests beyond the rate limit.',
  async load(scope) {
    const { params, isOwner } = scope
    const [{ data, totals, incomplete }, stored] = await Promise.all([
      call('GET /companies/{company_id}/usage', { params, query: { hours: 24 } }),
      call('GET /companies/{company_id}', { params }),
    ])
    const refused = totals.requests > 0 ? ` (${((100 * totals.refused) / totals.requests).toFixed(1)}%)` : ''
    return [
      incomplete && el('p', { class: 'problem' }, 'Some counters could not be read: the figures are too low.'),
      el(
        'dl',
        { class: 'figures' },
        figure('Requests', totals.requests.toLocaleString('en')),
        figure('Refused', `${totals.refused.toLocaleString('en')}${refused}`),
        figure('Database time', duration(totals.database_ms)),
        figure('Stored mail', share(stored.mail_bytes, stored.mail_quota_bytes)),
        figure('Other stored data', share(stored.stored_bytes, stored.storage_quota_bytes)),
        figure('Currency', stored.currency),
      ),
      isOwner && button('Change currency', () => changeCurrency(scope, stored.currency)),
      chart(
        'Requests per hour',
        data,
        ({ requests }) => requests,
        (value) => value.toLocaleString('en'),
        ({ refused }) => refused,
      ),
      chart('Database time per hour', data, ({ database_ms }) => database_ms, duration),
      fold('The figures as a table', table(data)),
    ]
  },
}

function changeCurrency(scope: Scope, present: string): void {
  const attributes = { name: 'currency', required: true, pattern: '[A-Z]{3}', maxlength: 3, value: present }
  const input = el('input', attributes)
  openForm({
    title: 'Change currency',
    submit: 'Save',
    content: [field('Currency', input, 'Three capital letters, such as EUR (ISO 4217). Amounts are not converted.')],
    async send() {
      const body = { currency: input.value }
      await call('PUT /companies/{company_id}/currency', { params: scope.params, body })
      return null
    },
    done: () => scope.refresh('The currency was changed.'),
  })
}

function figure(label: string, value: string): HTMLElement {
  return el('div', {}, el('dt', {}, label), el('dd', {}, value))
}

/** Formats the use of a quota: `12.3 MB (0.6%)`. */
function share(bytes: number, quota: number): string {
  const percent = quota > 0 ? ` (${((100 * bytes) / quota).toFixed(1)}%)` : ''
  return `${(bytes / 1e6).toLocaleString('en', { maximumFractionDigits: 1 })} MB${percent}`
}

function duration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`
  return ms < 60_000 ? `${(ms / 1_000).toFixed(1)} s` : `${(ms / 60_000).toFixed(1)} min`
}

/** Draws one bar an hour; the `marked` part has another colour. */
function chart(
  title: string,
  hours: Hour[],
  read: (hour: Hour) => number,
  format: (value: number) => string,
  marked?: (hour: Hour) => number,
): HTMLElement {
  const { height, left, bottom, top } = CHART
  // The text keeps its size on a narrow screen.
  const width = innerWidth < 760 ? CHART.narrowWidth : CHART.width
  const highest = Math.max(...hours.map(read), 0)
  const limit = niceLimit(highest)
  const step = (width - left) / Math.max(hours.length, 1)
  const y = (value: number) => height - bottom - (value / limit) * (height - bottom - top)
  const bar = (value: number, index: number, name: string) =>
    value > 0 &&
    svg('rect', {
      class: name,
      x: left + index * step + 1,
      y: y(value),
      width: step - 2,
      height: y(0) - y(value),
      rx: 1.5,
    })
  const titleId = newId()
  const peak = hours.find((hour) => read(hour) === highest)
  const summary = highest === 0 || !peak ? 'None.' : `The most, ${format(highest)}, at ${clock(peak.hour)}.`
  return el(
    'figure',
    {},
    el(
      'figcaption',
      {},
      el('h2', { id: titleId }, title),
      el('span', { class: 'quiet' }, summary),
      marked && el('span', { class: 'key' }, 'refused'),
    ),
    svg(
      'svg',
      { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-labelledby': titleId },
      ...[0, limit / 2, limit].flatMap((value) => [
        svg('line', { class: 'rule', x1: left, x2: width, y1: y(value), y2: y(value) }),
        svg('text', { x: left - 6, y: y(value) + 4, 'text-anchor': 'end' }, format(value)),
      ]),
      hours.flatMap((hour, index) => [
        bar(read(hour), index, 'bar'),
        marked && bar(marked(hour), index, 'bar marked'),
        index % 6 === 0 && svg('text', { x: left + index * step + 1, y: height - 5 }, clock(hour.hour)),
      ]),
    ),
  )
}

/** Rounds up to 2, 4, 6, 10, 20, 40 …, so that its half is whole too. */
function niceLimit(value: number): number {
  const size = 10 ** Math.floor(Math.log10(Math.max(value, 1)))
  return ([2, 4, 6, 10].find((factor) => factor * size >= value) ?? 10) * size
}

function clock(iso: string): string {
  return CLOCK.format(new Date(iso))
}

function table(hours: Hour[]): HTMLElement {
  const headings = ['Hour', 'Requests', 'Refused', 'Database time']
  return el(
    'table',
    {},
    el('caption', { class: 'hidden' }, `Usage of ${count(hours.length, 'hour')}, newest first`),
    el(
      'thead',
      {},
      el(
        'tr',
        {},
        headings.map((heading) => el('th', { scope: 'col' }, heading)),
      ),
    ),
    el(
      'tbody',
      {},
      ...hours
        .toReversed()
        .map(({ hour, requests, refused, database_ms }) =>
          el(
            'tr',
            {},
            el('th', { scope: 'row' }, el('time', { datetime: hour }, DAY_AND_CLOCK.format(new Date(hour)))),
            el('td', {}, requests.toLocaleString('en')),
            el('td', {}, refused.toLocaleString('en')),
            el('td', {}, duration(database_ms)),
          ),
        ),
    ),
  )
}
