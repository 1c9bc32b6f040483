import type { Kind } from '../../operation/admin/integrations/contract.ts'
import { call, type ItemOf, showError } from './api.ts'
import { checkbox, field, openForm, select } from './dialog.ts'
import { button, type Child, el, replace, type Tone, time } from './dom.ts'
import { INTEGRATION_FORMS, type Input, type IntegrationForm } from './integration-forms.ts'
import { item, list } from './list.ts'
import type { Scope, View } from './view.ts'

type Integration = ItemOf<'GET /companies/{company_id}/integrations'>

const STATES: Record<Integration['state'], readonly [Tone, string]> = {
  connected: ['good', 'Connected'],
  disabled: ['quiet', 'Disabled'],
  reconnect_needed: ['bad', 'Reconnect needed'],
  paused: ['warn', 'Paused'],
  credentials_unreadable: ['bad', 'Credentials unreadable'],
}
const LOST =
  'The accounting system no longer accepts the consent that it was given. Save new credentials: what waits is then sent.'

export const integrations: View = {
  id: 'integrations',
  title: 'Integrations',
  lead: 'The other systems that this service calls for the company.',
  async load(scope) {
    const { data } = await call('GET /companies/{company_id}/integrations', { params: scope.params })
    const rows = (Object.keys(INTEGRATION_FORMS) as Kind[]).map((kind) => {
      const integration = data.find((each) => each.kind === kind)
      return show(scope, INTEGRATION_FORMS[kind], kind, integration)
    })
    return [!scope.isOwner && el('p', { class: 'quiet' }, 'Owners can change them.'), list('Integrations', rows)]
  },
}

function show(scope: Scope, form: IntegrationForm, kind: Kind, integration?: Integration): HTMLElement {
  const { title, purpose } = form
  const isLost = integration?.state === 'reconnect_needed'
  const verb = isLost ? 'Reconnect' : integration ? 'Edit' : 'Set up'
  const result = el('div', { role: 'status' })
  return item({
    title,
    state: integration ? STATES[integration.state] : ['quiet', 'Not set up'],
    problems: [isLost && LOST, integration?.reason ?? null],
    facts: [purpose, ...factsOf(integration)],
    more: [result],
    actions: scope.isOwner && [
      button(verb, () => edit(scope, form, kind, integration), { of: title, look: isLost && 'primary' }),
      integration && button('Test connection', () => test(scope, kind, result), { of: title }),
    ],
  })
}

function factsOf(integration: Integration | undefined): Child[] {
  if (!integration) return []
  const { base_url, paused_until, updated_at } = integration
  return [base_url, paused_until !== null && ['Paused until ', time(paused_until)], ['Changed ', time(updated_at)]]
}

async function test({ params }: Scope, kind: Kind, result: HTMLElement): Promise<void> {
  replace(result, el('p', { class: 'quiet' }, 'Testing…'))
  try {
    const { ok, message } = await call('POST /companies/{company_id}/integrations/{kind}/test', {
      params: { ...params, kind },
    })
    replace(result, el('p', { class: ok ? 'good' : 'problem' }, message))
  } catch (error) {
    replace(result, showError(error))
  }
}

function edit(scope: Scope, form: IntegrationForm, kind: Kind, integration?: Integration): void {
  const { title, settings, credentials } = form
  const hint = integration
    ? 'They are stored encrypted and never shown. Leave all empty to keep them, or enter all of them anew.'
    : 'They are stored encrypted and never shown.'
  const { base_url = '' } = integration ?? {}
  const values: Record<string, string | null> = { ...integration?.settings, base_url, endpoint: base_url }
  openForm({
    title,
    submit: 'Save',
    content: [
      settings.map((input) => toField(input, String(values[input.name] ?? ''))),
      el(
        'fieldset',
        {},
        el('legend', {}, 'Credentials'),
        el('p', { class: 'hint' }, hint),
        credentials.map((input) => toField({ ...input, isKept: integration !== undefined }, '')),
      ),
      checkbox('enabled', 'yes', 'Use this integration', integration?.enabled ?? true),
    ],
    async send(data) {
      const given = filled(credentials, data)
      const body = {
        enabled: data.has('enabled'),
        ...filled(settings, data),
        ...(Object.keys(given).length > 0 && { credentials: given }),
      }
      const params = { ...scope.params, kind }
      await call('PUT /companies/{company_id}/integrations/{kind}', { params, body })
      return null
    },
    done: () => scope.refresh(`${title} was saved.`),
  })
}

/** Collects the inputs that are not empty. */
function filled(inputs: readonly Input[], data: FormData): Record<string, string> {
  const values = inputs.map(({ name }) => [name, String(data.get(name)).trim()] as const)
  return Object.fromEntries(values.filter(([, value]) => value !== ''))
}

function toField(
  { name, label, hint, isOptional, isKept, isSecret, options }: Input & { isKept?: boolean },
  value: string,
) {
  const attributes = { name, value, maxlength: 8192, autocomplete: 'off', spellcheck: 'false' }
  const input = options
    ? select(name, options, value)
    : el('input', { ...attributes, required: !isOptional && !isKept, class: isSecret && 'masked' })
  return field(isOptional ? `${label} (optional)` : label, input, hint)
}
