import { ApiError } from '../../client/errors.ts'
import type { Kind } from '../../operation/admin/integrations/contract.ts'
import { type ItemOf, showLoaded } from './api.ts'
import { button, el, replace, time } from './dom.ts'
import { type Action, checkbox, choice, fieldset, input, text } from './form.ts'
import { INTEGRATION_FORMS, type Input } from './integration-forms.ts'
import { type Item, listView, type Scope } from './view.ts'

type Integration = ItemOf<'GET /integrations'>

const STATES: Record<Integration['state'], Item['state']> = {
  connected: ['good', 'Connected'],
  disabled: ['quiet', 'Disabled'],
  reconnect_needed: ['bad', 'Reconnect needed'],
  paused: ['warn', 'Paused'],
  credentials_unreadable: ['bad', 'Credentials unreadable'],
}
const LOST =
  'The accounting system no longer accepts the consent that it was given. Save new credentials: what waits is then sent.'

export const integrations = listView({
  id: 'integrations',
  title: 'Integrations',
  lead: 'The other systems that this service calls for the company.',
  async read({ call }) {
    const { data } = await call('GET /integrations', {})
    const kinds = Object.keys(INTEGRATION_FORMS) as Kind[]
    return kinds.map((kind) => ({ kind, integration: data.find((each) => each.kind === kind) }))
  },
  head: ({ isOwner }) => [!isOwner && el('p', { class: 'quiet' }, 'Owners can change them.')],
  item({ kind, integration }, scope) {
    const { title, purpose } = INTEGRATION_FORMS[kind]
    const result = el('div', { role: 'status' })
    return {
      title,
      state: integration ? STATES[integration.state] : ['quiet', 'Not set up'],
      problems: [integration?.state === 'reconnect_needed' && LOST, integration?.reason ?? null],
      facts: [purpose, ...(integration ? factsOf(integration) : [])],
      more: [result],
      actions: scope.isOwner && [
        edit(scope, kind, integration),
        integration && button('Test connection', () => test(scope, kind, result), false, title),
      ],
    }
  },
})

const factsOf = ({ base_url, paused_until, updated_at }: Integration) => [
  base_url,
  paused_until !== null && ['Paused until ', time(paused_until)],
  ['Changed ', time(updated_at)],
]

function test({ call }: Scope, kind: Kind, result: HTMLElement): Promise<void> {
  replace(result, el('p', { class: 'quiet' }, 'Testing…'))
  const tested = call('POST /integrations/{kind}/test', { params: { kind } })
  const shown = tested.then(({ ok, message }) => el('p', { class: ok ? 'good' : 'problem' }, message))
  return showLoaded(result, shown)
}

function edit({ call }: Scope, kind: Kind, integration?: Integration): Action {
  const { title, settings, credentials } = INTEGRATION_FORMS[kind]
  const isLost = integration?.state === 'reconnect_needed'
  const hint = 'They are stored encrypted and never shown.'
  const keep = integration
    ? ' Leave all empty to keep them, or enter all of them again: an optional one that is empty then gets its default.'
    : ''
  const { base_url = '' } = integration ?? {}
  const values: Record<string, string | null> = { ...integration?.settings, base_url, endpoint: base_url }
  return {
    label: isLost ? 'Reconnect' : integration ? 'Edit' : 'Set up',
    look: isLost && 'primary',
    title,
    submit: 'Save',
    content() {
      const secrets = credentials.map((each) => toField(each, '', integration !== undefined))
      const entered = fieldset('Credentials', el('p', { class: 'hint' }, hint + keep), secrets)
      const required = entered.querySelectorAll<HTMLInputElement>(':required')
      const used = checkbox('enabled', 'yes', 'Use this integration', integration?.enabled ?? true)
      used.addEventListener('change', () => {
        for (const input of required) input.required = used.querySelector(':checked') !== null
      })
      return [settings.map((each) => toField(each, values[each.name] ?? '')), entered, used]
    },
    async send(data) {
      const { data: present } = await call('GET /integrations', {})
      // A PUT would undo what another person has changed.
      if (present.find((each) => each.kind === kind)?.updated_at !== integration?.updated_at) {
        const message = 'It was changed meanwhile: open the form again.'
        throw new ApiError({ status: 409, code: 'invalid_request', message })
      }
      const given = filled(credentials, ({ name }) => text(data, name))
      const body = {
        enabled: data.has('enabled'),
        ...filled(settings, ({ name }) => text(data, name).trim()),
        ...(Object.keys(given).length > 0 && { credentials: given }),
      }
      return call('PUT /integrations/{kind}', { params: { kind }, body })
    },
    done: `${title} was saved.`,
  }
}

function filled(inputs: readonly Input[], read: (input: Input) => string): Record<string, string> {
  const values = inputs.map((each) => [each.name, read(each)] as const)
  return Object.fromEntries(values.filter(([, value]) => value !== ''))
}

/** @param isKept whether an empty input keeps the stored value */
function toField({ name, label, hint, isOptional, isSecret, options }: Input, value: string, isKept = false) {
  const shown = isOptional ? `${label} (optional)` : label
  if (options) return choice(shown, name, options, value, hint)
  const attributes = { name, value, maxlength: 8192, autocomplete: 'off', spellcheck: 'false' }
  return input(shown, { ...attributes, required: !isOptional && !isKept, class: isSecret && 'masked' }, hint)
}
