import { call, type ItemOf, listAll } from './api.ts'
import { time } from './dom.ts'
import { type Action, choice, input, text } from './form.ts'
import { listView, type Scope } from './view.ts'

type Role = ItemOf<'GET /companies/{company_id}/members'>['role']

const ROLES: Record<Role, string> = { developer: 'Developer', owner: 'Owner' }

export const members = listView({
  id: 'members',
  title: 'Members',
  lead: 'Who may open these settings. Developers manage tokens, webhooks and accounting events; owners also integrations and members.',
  isForOwners: true,
  read: ({ params }) => listAll('GET /companies/{company_id}/members', { params }),
  head: (scope) => [add(scope)],
  label: 'Members',
  empty: 'There is no member yet.',
  item: ({ email, role, created_at }, scope) => ({
    title: email,
    state: ['quiet', ROLES[role]],
    facts: [['Added ', time(created_at)]],
    actions: [
      {
        label: 'Edit',
        title: `Edit ${email}`,
        submit: 'Save',
        content: () => [choice('Role', 'role', ROLES, role)],
        send: (data) => put(scope, email, data),
        done: `${email} was changed.`,
      },
      {
        label: 'Remove',
        look: 'danger',
        title: `Remove ${email}?`,
        submit: 'Remove member',
        content: () => ['The person can no longer open these settings. The tokens that they created keep working.'],
        send: () => call('DELETE /companies/{company_id}/members/{email}', { params: { ...scope.params, email } }),
        done: `${email} was removed.`,
      },
    ],
  }),
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
  send: (data) => put(scope, text(data, 'email'), data),
  done: 'The member was added.',
})

function put({ params }: Scope, email: string, data: FormData) {
  const body = { role: text(data, 'role') === 'owner' ? 'owner' : 'developer' } as const
  return call('PUT /companies/{company_id}/members/{email}', { params: { ...params, email }, body })
}
