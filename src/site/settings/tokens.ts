import { PERMISSIONS } from '../../kernel/gate/permissions.ts'
import { call, type ItemOf, listAll, type ResponseOf } from './api.ts'
import { checkboxes, checked, field, openForm, secret, select } from './dialog.ts'
import { ago, button, type Child, el, type Tone, time } from './dom.ts'
import { chips, fold, item, list } from './list.ts'
import type { Scope, View } from './view.ts'

type Token = ItemOf<'GET /companies/{company_id}/tokens'>

const DAY_MS = 86_400_000
const STATES: Record<Token['state'], readonly [Tone, string]> = {
  active: ['good', 'Active'],
  expired: ['quiet', 'Expired'],
  revoked: ['quiet', 'Revoked'],
}
const EXPIRIES = [
  ['30', '30 days'],
  ['90', '90 days'],
  ['365', '1 year'],
  ['', 'Never'],
] as const
const OVERLAPS = [
  ['0', 'Stops at once'],
  ['3600', 'Works for 1 hour'],
  ['86400', 'Works for 1 day'],
  ['604800', 'Works for 7 days'],
] as const

export const tokens: View = {
  id: 'tokens',
  title: 'API tokens',
  lead: 'A program that calls the API sends a token. It acts for the whole company, within its permissions.',
  async load(scope) {
    const all = await listAll('GET /companies/{company_id}/tokens', { params: scope.params })
    const rows = (isActive: boolean) =>
      all.filter(({ state }) => (state === 'active') === isActive).map((token) => show(scope, token))
    const ended = rows(false)
    return [
      button('New token', () => create(scope), { look: 'primary' }),
      list('Tokens', rows(true), 'There is no token yet.'),
      ended.length > 0 && fold(`Expired and revoked (${ended.length})`, list('Expired and revoked tokens', ended)),
    ]
  },
}

function show(scope: Scope, token: Token): HTMLElement {
  const { name, permissions, state, created_at, created_by, last_used_at, expires_at, revoked_at } = token
  const end = () => {
    if (revoked_at !== null) return ['Revoked ', time(revoked_at)]
    if (expires_at === null) return 'Never expires'
    return [state === 'expired' ? 'Expired ' : 'Expires ', time(expires_at)]
  }
  return item({
    title: name,
    state: STATES[state],
    facts: [
      last_used_at === null ? 'Never used' : ['Last used ', ago(last_used_at)],
      end(),
      ['Created ', time(created_at), created_by !== null && ` by ${created_by}`],
    ],
    more: [chips(permissions)],
    actions: state === 'active' && [
      button('Rotate', () => rotate(scope, token), { of: name }),
      button('Revoke', () => revoke(scope, token), { of: name, look: 'danger' }),
    ],
  })
}

function create(scope: Scope): void {
  openForm({
    title: 'New token',
    submit: 'Create token',
    content: [
      field('Name', el('input', { name: 'name', required: true, maxlength: 255 }), 'Such as the program that uses it.'),
      el(
        'fieldset',
        {},
        el('legend', {}, 'Permissions'),
        el('p', { class: 'hint' }, 'Give as few as the program needs. They cannot be changed later.'),
        checkboxes('permissions', PERMISSIONS, []),
      ),
      field('Expires after', select('days', EXPIRIES, '90')),
    ],
    async send(data) {
      const days = Number(data.get('days'))
      const expires_at = days === 0 ? null : new Date(Date.now() + days * DAY_MS).toISOString()
      const permissions = checked(data, 'permissions', PERMISSIONS)
      const body = { name: String(data.get('name')), permissions, expires_at }
      return reveal(await call('POST /companies/{company_id}/tokens', { params: scope.params, body }))
    },
    done: () => scope.refresh('The token was created.'),
  })
}

function rotate(scope: Scope, { id, name }: Token): void {
  openForm({
    title: `Rotate ${name}`,
    submit: 'Rotate token',
    content: [
      el('p', {}, 'Creates a token with the same name and permissions, to be used in place of the present one.'),
      field(
        'The present token',
        select('overlap', OVERLAPS, '86400'),
        'No request fails if the program has the new token by then.',
      ),
    ],
    async send(data) {
      const body = { overlap_seconds: Number(data.get('overlap')) }
      const params = { ...scope.params, token_id: id }
      return reveal(await call('POST /companies/{company_id}/tokens/{token_id}/rotate', { params, body }))
    },
    done: () => scope.refresh(`${name} was rotated.`),
  })
}

function revoke(scope: Scope, { id, name, last_used_at }: Token): void {
  openForm({
    title: `Revoke ${name}?`,
    submit: 'Revoke token',
    isDangerous: true,
    content: [
      el('p', {}, 'Every request with it is refused within 30 seconds. This cannot be undone.'),
      el('p', {}, last_used_at === null ? 'It was never used.' : ['It was last used ', ago(last_used_at), '.']),
    ],
    async send() {
      const params = { ...scope.params, token_id: id }
      await call('DELETE /companies/{company_id}/tokens/{token_id}', { params })
      return null
    },
    done: () => scope.refresh(`${name} was revoked.`),
  })
}

/** The API returns the token only this once. */
function reveal({ token, name }: ResponseOf<'POST /companies/{company_id}/tokens'>): Child {
  return [
    el('p', {}, el('strong', {}, 'Copy the token now.'), ' It is not shown again.'),
    secret(`Token of ${name}`, token),
    el('p', { class: 'hint' }, 'To try it:'),
    el('pre', {}, el('code', {}, `curl -H 'Authorization: Bearer ${token}' \\\n  ${location.origin}/api/v1/me`)),
  ]
}
