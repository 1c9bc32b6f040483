import { expect, it } from 'vitest'
import * as z from 'zod/mini'
import { KINDS } from '../../src/operation/admin/integrations/contract.ts'
import { credentialForms, integrationsFile } from '../../src/operation/copies/seed/integrations-file.ts'
import { INTEGRATION_FORMS } from '../../src/site/settings/integration-forms.ts'

/** The names of a JSON Schema's properties, sorted; those that may be left out with a question mark. */
function namesOf(schema: z.core.JSONSchema.JSONSchema): string[] {
  const { properties = {}, required = [] } = schema
  return Object.keys(properties)
    .map((name) => (required.includes(name) ? name : `${name}?`))
    .sort()
}

const { properties = {} } = z.toJSONSchema(integrationsFile, { io: 'input' })

it('has a form and a contract for every kind of integration', () => {
  expect(KINDS).toEqual(Object.keys(properties))
  expect(Object.keys(INTEGRATION_FORMS).sort()).toEqual(KINDS.toSorted())
})

it.each(Object.entries(INTEGRATION_FORMS))('asks for the fields of %s that the API takes', (kind, form) => {
  const listed = (inputs: typeof form.settings) =>
    inputs.map(({ name, isOptional }) => (isOptional ? `${name}?` : name)).sort()
  const settings = namesOf(properties[kind] as z.core.JSONSchema.JSONSchema)
  expect(listed(form.settings)).toEqual(settings.filter((name) => !/^(credentials|enabled)\??$/.test(name)))
  const credentials = credentialForms[kind]
  expect(listed(form.credentials)).toEqual(credentials && namesOf(z.toJSONSchema(credentials, { io: 'input' })))
})
