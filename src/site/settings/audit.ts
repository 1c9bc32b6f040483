import { call, type ItemOf, showError } from './api.ts'
import { button, el, replace, row, table, time } from './dom.ts'
import { field, select } from './form.ts'
import type { Scope, View } from './view.ts'

type Entry = ItemOf<'GET /companies/{company_id}/audit'>

const SOURCES = [
  ['administration', 'Made by people'],
  ['api', 'Made by tokens, through the API'],
] as const
type Source = (typeof SOURCES)[number][0]
const HEADINGS: Record<Source, readonly string[]> = {
  administration: ['Time', 'What', 'Object', 'Who', 'Address', 'Request'],
  api: ['Time', 'What', 'Object', 'Token', 'Request'],
}

export const audit: View = {
  id: 'audit',
  title: 'Audit trail',
  lead: 'Who changed what, newest first: changes by people are kept for 400 days, those by tokens for 90.',
  async load({ params }) {
    const choice = select('source', SOURCES)
    const list = el('div')
    const show = async () => {
      replace(list, await loadList(params, choice.value === 'api' ? 'api' : 'administration'))
    }
    choice.addEventListener('change', () => show().catch((error) => replace(list, showError(error))))
    await show()
    return [field('Changes', choice), list]
  },
}

/** Loads the first page of a list, with a button for further ones. */
async function loadList(params: Scope['params'], source: Source) {
  const rows = el('tbody')
  const errors = el('div')
  let cursor: string | null = null
  const load = async () => {
    const query = { source, ...(cursor !== null && { cursor }) }
    const { data, pagination } = await call('GET /companies/{company_id}/audit', { params, query })
    rows.append(...data.map((entry) => show(entry, source)))
    cursor = pagination.next_cursor
    more.hidden = !pagination.has_more
  }
  const more = button('Load more', async () => {
    more.disabled = true
    errors.replaceChildren()
    await load().catch((error) => errors.append(showError(error)))
    more.disabled = false
  })
  await load()
  if (rows.childElementCount === 0) return el('p', { class: 'empty' }, 'Nothing was changed yet.')
  const attributes = { class: 'scroll', role: 'region', 'aria-label': 'Changes', tabindex: 0 }
  return [el('div', attributes, table(HEADINGS[source], rows)), errors, more]
}

function show(entry: Entry, source: Source): HTMLElement {
  const by = source === 'api' ? [entry.token_id] : [entry.actor, entry.address]
  const action = el('code', { class: 'word' }, entry.action)
  return row(time(entry.time), action, entry.entity_id, ...by, el('code', entry.request_id))
}
