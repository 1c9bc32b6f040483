import { ApiError } from '../../client/errors.ts'
import { type ItemOf, showError } from './api.ts'
import { button, el, replace, row, table, time } from './dom.ts'
import { type Action, choice, field, input, select, text } from './form.ts'
import { listView, type Scope, type View } from './view.ts'

type Role = ItemOf<'GET /members'>['role']

const ROLES: Record<Role, string> = { developer: 'Developer', owner: 'Owner' }

export const members = listView({
  id: 'members',
  title: 'Members',
  lead: 'Who may open these settings. Developers manage tokens, webhooks and accounting events; owners also integrations and members.',
  isForOwners: true,
  read: ({ list }) => list('GET /members'),
  head: (scope) => [add(scope)],
  empty: 'There is no member yet.',
  item({ email, role, created_at }, scope) {
    // The page offers what the role allowed when it was loaded.
    const reloadOwn = () => email === scope.actor && location.reload()
    return {
      title: email,
      state: ['quiet', ROLES[role]],
      facts: [['Added ', time(created_at)]],
      actions: [
        {
          label: 'Edit',
          title: `Edit ${email}`,
          submit: 'Save',
          content: () => [choice('Role', 'role', ROLES, role)],
          send: (data) => put(scope, email, data, true).then(reloadOwn),
          done: `${email} was changed.`,
        },
        {
          label: 'Remove',
          look: 'danger',
          title: `Remove ${email}?`,
          submit: 'Remove member',
          content: () => ['The person can no longer open these settings. The tokens that they created keep working.'],
          send: () => scope.call('DELETE /members/{email}', { params: { email } }).then(reloadOwn),
          done: `${email} was removed.`,
        },
      ],
    }
  },
})

const add = (scope: Scope): Action => ({
  label: 'Add member',
  look: 'primary',
  content: () => [
    input(
      'Email',
      { name: 'email', type: 'email', required: true, maxlength: 254 },
      'The one that the person signs in with.',
    ),
    choice('Role', 'role', ROLES),
  ],
  send: (data) => put(scope, text(data, 'email').toLowerCase(), data, false),
  done: 'The member was added.',
})

/** A PUT adds the member or changes the role, and another person may have added or removed the member meanwhile. */
async function put({ call, list }: Scope, email: string, data: FormData, isThere: boolean) {
  const rows = await list('GET /members')
  if (rows.some((row) => row.email === email) !== isThere) {
    throw isThere
      ? new ApiError({ status: 404, code: 'not_found', message: 'This member was removed meanwhile.' })
      : new ApiError({ status: 400, code: 'invalid_request', message: 'This member is there already: edit the role.' })
  }
  const body = { role: text(data, 'role') === 'owner' ? 'owner' : 'developer' } as const
  return call('PUT /members/{email}', { params: { email }, body })
}

const SOURCES = { administration: 'Made by people', api: 'Made by tokens, through the API' }
type Source = keyof typeof SOURCES

export const audit: View = {
  id: 'audit',
  title: 'Audit trail',
  lead: 'Who changed what, newest first: changes by people are kept for 400 days, those by tokens for 90.',
  async load(scope) {
    const choice = select('source', Object.entries(SOURCES))
    const list = el('div')
    const show = async () => {
      const source = choice.value === 'api' ? 'api' : 'administration'
      replace(list, el('p', { class: 'quiet', role: 'status' }, 'Loading…'))
      const shown = await loadList(scope, source).catch(showError)
      // The reader may have chosen again meanwhile.
      if (choice.value === source) replace(list, shown)
    }
    choice.addEventListener('change', show)
    await show()
    return [field('Changes', choice), list]
  },
}

async function loadList({ call }: Scope, source: Source) {
  const rows = el('tbody')
  const errors = el('div')
  let cursor: string | undefined
  const load = async () => {
    const { data, pagination } = await call('GET /audit', { query: { source, cursor } })
    rows.append(...data.map((entry) => showEntry(entry, source)))
    cursor = pagination.next_cursor ?? undefined
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
  const by = source === 'api' ? ['Token'] : ['Who', 'Address']
  const shown = table(['Time', 'What', 'Object', ...by, 'Request'], rows)
  return [el('div', { class: 'scroll', role: 'region', 'aria-label': 'Changes', tabindex: 0 }, shown), errors, more]
}

function showEntry(entry: ItemOf<'GET /audit'>, source: Source): HTMLElement {
  const by = source === 'api' ? [entry.token_id] : [entry.actor, entry.address]
  const action = el('code', { class: 'word' }, entry.action)
  return row(time(entry.time), action, entry.entity_id, ...by, el('code', entry.request_id))
}
