import { seedFile } from '../../operation/copies/seed/file.ts'
import { credentialForms } from '../../operation/copies/seed/integrations-file.ts'
import { asObject, toJson } from './json.ts'
import { SchemaWriter } from './schema.ts'

/** The JSON Schema (2020-12) of a seed file, as JSON. */
export function describeSeedFile(): string {
  const writer = new SchemaWriter()
  const root = writer.write(seedFile, 'input')
  const kinds = asObject(asObject(asObject(root.properties).integrations).properties)
  for (const [kind, form] of Object.entries(credentialForms)) {
    const { credentials } = asObject(asObject(kinds[kind]).properties)
    asObject(credentials).anyOf = [writer.write(form, 'input'), { maxProperties: 0 }]
  }
  const schema = {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'A seed file',
    description: 'The data of one company, for `npm run seed`. Every list and most fields may be left out.',
    ...root,
    $defs: Object.fromEntries(writer.components),
  }
  return toJson(schema).replaceAll('#/components/schemas/', '#/$defs/')
}
