import { call, type ItemOf, showError } from './api.ts'
import { field, select } from './dialog.ts'
import { button, el, replace, time } from './dom.ts'
import type { Scope, View } from './view.ts'

type Entry = ItemOf<'GET /companies/{company_id}/audit'>

const SOURCES = [
  ['administration', 'Made by people'],
  ['api', 'Made by tokens, through the API'],
] as const
const HEADINGS = {
  administration: ['Time', 'What', 'Object', 'Who', 'Address', 'Request'],
  api: ['Time', 'What', 'Object', 'Token', 'Request'],
} as const

export const audit: View = {
  id: 'audit',
  title: 'Audit trail',
  lead: 'Who changed what, newest first: changes by people are kept for 400 days, those by tokens for 90.',
  async load({ params }) {
    const choice = select('source', SOURCES)
    const list = el('div')
    const show = async () => {
      const source = choice.value === 'api' ? 'api' : 'administration'
      replace(list, ...(await loadList(params, source)))
    }
    choice.addEventListener('change', () => show().catch((error) => replace(list, showError(error))))
    await show()
    return [field('Changes', choice), list]
  },
}

/** Loads the first page of a list, with a button for further ones. */
async function loadList(params: Scope['params'], source: keyof typeof HEADINGS) {
  const headings: readonly string[] = HEADINGS[source]
  const rows = el('tbody')
  const errors = el('div')
  let cursor: string | null = null
  const load = async () => {
    const query = { source, ...(cursor !== null && { cursor }) }
    const { data, pagination } = await call('GET /companies/{company_id}/audit', { params, query })
    rows.append(...data.map((entry) => show(entry, headings.includes('Token'))))
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
  if (rows.childElementCount === 0) return [el('p', { class: 'empty' }, 'Nothing was changed yet.')]
  const head = el(
    'tr',
    {},
    headings.map((heading) => el('th', { scope: 'col' }, heading)),
  )
  const table = el('table', {}, el('thead', {}, head), rows)
  return [el('div', { class: 'scroll', role: 'region', 'aria-label': 'Changes', tabindex: 0 }, table), errors, more]
}

function show({ time: at, actor, token_id, action, entity_id, address, request_id }: Entry, isOfToken: boolean) {
  return el(
    'tr',
    {},
    el('td', {}, time(at)),
    el('td', {}, el('code', { class: 'word' }, action)),
    el('td', {}, entity_id),
    el('td', {}, isOfToken ? token_id : actor),
    !isOfToken && el('td', {}, address),
    el('td', {}, el('code', {}, request_id)),
  )
}
