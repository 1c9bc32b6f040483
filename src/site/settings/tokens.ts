import { PERMISSIONS } from '../../kernel/gate/permissions.ts'
import type { ItemOf, ResponseOf } from './api.ts'
import { ago, type Child, chips, DAY_MS, el, time } from './dom.ts'
import { type Action, checkboxes, checked, choice, fieldset, input, secret, text } from './form.ts'
import { type Item, listView, type Scope } from './view.ts'

type Token = ItemOf<'GET /tokens'>

const STATES: Record<Token['state'], Item['state']> = {
  active: ['good', 'Active'],
  expired: ['quiet', 'Expired'],
  revoked: ['quiet', 'Revoked'],
}
const EXPIRIES = { 30: '30 days', 90: '90 days', 365: '1 year', '': 'Never' }
const OVERLAPS = {
  0: 'Stops at once',
  3600: 'Works for 1 hour',
  86400: 'Works for 1 day',
  604800: 'Works for 7 days',
}

export const tokens = listView({
  id: 'tokens',
  title: 'API tokens',
  lead: 'A program that calls the API sends a token. It acts for the whole company, within its permissions.',
  // Many may have ended: the active ones come first.
  read: ({ listByState }) => listByState('GET /tokens', STATES, 'active'),
  head: (scope) => [create(scope)],
  empty: 'There is no token yet.',
  item: (token, scope) => ({
    title: token.name,
    state: STATES[token.state],
    facts: [
      token.last_used_at === null ? 'Never used' : ['Last used ', ago(token.last_used_at)],
      describeEnd(token),
      ['Created ', time(token.created_at), token.created_by !== null && ` by ${token.created_by}`],
    ],
    more: [chips(token.permissions)],
    actions: token.state === 'active' && [rotate(scope, token), revoke(scope, token)],
  }),
})

function describeEnd({ state, expires_at, revoked_at }: Token): Child {
  if (revoked_at !== null) return ['Revoked ', time(revoked_at)]
  if (expires_at === null) return 'Never expires'
  return [state === 'expired' ? 'Expired ' : 'Expires ', time(expires_at)]
}

const create = ({ call }: Scope): Action => ({
  label: 'New token',
  look: 'primary',
  submit: 'Create token',
  content: () => [
    input('Name', { name: 'name', required: true, maxlength: 255 }, 'Such as the program that uses it.'),
    fieldset(
      'Permissions',
      el('p', { class: 'hint' }, 'Give as few as the program needs. They cannot be changed later.'),
      checkboxes('permissions', PERMISSIONS, []),
    ),
    choice('Expires after', 'days', EXPIRIES, '90'),
  ],
  async send(data, reveal) {
    const days = Number(data.get('days'))
    const expires_at = days === 0 ? null : new Date(Date.now() + days * DAY_MS).toISOString()
    const body = { name: text(data, 'name'), permissions: checked(data, 'permissions', PERMISSIONS), expires_at }
    reveal(show(await call('POST /tokens', { body })))
  },
  done: 'The token was created.',
})

const rotate = ({ call }: Scope, { id, name }: Token): Action => ({
  label: 'Rotate',
  title: `Rotate ${name}`,
  submit: 'Rotate token',
  content: () => [
    'Creates a token with the same name and permissions, to be used in place of the present one.',
    choice(
      'The present token',
      'overlap',
      OVERLAPS,
      '86400',
      'No request fails if the program has the new token by then.',
    ),
  ],
  async send(data, reveal) {
    const body = { overlap_seconds: Number(data.get('overlap')) }
    reveal(show(await call('POST /tokens/{token_id}/rotate', { params: { token_id: id }, body })))
  },
  done: `${name} was rotated.`,
})

const revoke = ({ call }: Scope, { id, name, last_used_at }: Token): Action => ({
  label: 'Revoke',
  look: 'danger',
  title: `Revoke ${name}?`,
  submit: 'Revoke token',
  content: () => [
    'Every request with it is refused within 30 seconds. This cannot be undone.',
    el('p', last_used_at === null ? 'It was never used.' : ['It was last used ', ago(last_used_at), '.']),
  ],
  send: () => call('DELETE /tokens/{token_id}', { params: { token_id: id } }),
  done: `${name} was revoked.`,
})

/** The API returns the token only this once. */
function show({ token, name }: ResponseOf<'POST /tokens'>): Child {
  const hint = 'To try it: GET /api/v1/me at the address of the API, with “Authorization: Bearer” and the token.'
  return [secret('token', `Token of ${name}`, token), el('p', { class: 'hint' }, hint)]
}
