import { call, type ItemOf, listAll } from './api.ts'
import { chosen, field, openForm, select } from './dialog.ts'
import { button, el, time } from './dom.ts'
import { item, list } from './list.ts'
import type { Scope, View } from './view.ts'

type Member = ItemOf<'GET /companies/{company_id}/members'>

const ROLES = [
  ['developer', 'Developer'],
  ['owner', 'Owner'],
] as const

export const members: View = {
  id: 'members',
  title: 'Members',
  lead: 'Who may open these settings. Developers manage tokens, webhooks and accounting events; owners also integrations and members.',
  isForOwners: true,
  async load(scope) {
    const all = await listAll('GET /companies/{company_id}/members', { params: scope.params })
    const rows = all.map((member) => show(scope, member))
    return [
      button('Add member', () => add(scope), { look: 'primary' }),
      list('Members', rows, 'There is no member yet.'),
    ]
  },
}

function show(scope: Scope, { email, role, created_at }: Member): HTMLElement {
  return item({
    title: email,
    state: ['quiet', role === 'owner' ? 'Owner' : 'Developer'],
    facts: [['Added ', time(created_at)]],
    actions: [
      button('Edit', () => edit(scope, email, role), { of: email }),
      button('Remove', () => remove(scope, email), { of: email, look: 'danger' }),
    ],
  })
}

function add(scope: Scope): void {
  const email = el('input', { name: 'email', type: 'email', required: true, maxlength: 254 })
  openForm({
    title: 'Add member',
    submit: 'Add member',
    content: [field('Email', email, 'The one that the person signs in with.'), field('Role', select('role', ROLES))],
    send: (data) => put(scope, email.value, data),
    done: () => scope.refresh('The member was added.'),
  })
}

function edit(scope: Scope, email: string, role: string): void {
  openForm({
    title: `Edit ${email}`,
    submit: 'Save',
    content: [field('Role', select('role', ROLES, role))],
    send: (data) => put(scope, email, data),
    done: () => scope.refresh(`${email} was changed.`),
  })
}

async function put({ params }: Scope, email: string, data: FormData): Promise<null> {
  await call('PUT /companies/{company_id}/members/{email}', {
    params: { ...params, email },
    body: { role: chosen(data, 'role', ROLES) },
  })
  return null
}

function remove(scope: Scope, email: string): void {
  openForm({
    title: `Remove ${email}?`,
    submit: 'Remove member',
    isDangerous: true,
    content: [el('p', {}, 'The person can no longer open these settings. The tokens that they created keep working.')],
    async send() {
      await call('DELETE /companies/{company_id}/members/{email}', { params: { ...scope.params, email } })
      return null
    },
    done: () => scope.refresh(`${email} was removed.`),
  })
}
