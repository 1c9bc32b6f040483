import type { Kind } from '../../operation/admin/integrations/contract.ts'

export interface Input {
  name: string
  label: string
  hint?: string
  isOptional?: boolean
  isSecret?: boolean
  /** The values of a choice; without them the input is a text. */
  options?: Readonly<Record<string, string>>
}

interface IntegrationForm {
  title: string
  purpose: string
  settings: readonly Input[]
  credentials: readonly Input[]
}

/** Every kind of integration, with the fields of its settings and credentials, as in the API. */
export const INTEGRATION_FORMS: Readonly<Record<Kind, IntegrationForm>> = {
  accounting_sync: {
    title: 'Accounting system',
    purpose: 'Orders are sent to it as invoices.',
    settings: [
      { name: 'base_url', label: 'Address', hint: 'Without /v3/….' },
      {
        name: 'token_url',
        label: 'Address of access tokens',
        hint: 'By default /oauth2/v1/tokens/bearer.',
        isOptional: true,
      },
    ],
    credentials: [
      { name: 'realm_id', label: 'Realm id' },
      { name: 'client_id', label: 'Client id' },
      { name: 'client_secret', label: 'Client secret', isSecret: true },
      { name: 'refresh_token', label: 'Refresh token', isSecret: true },
      { name: 'item_id', label: 'Item id of invoice lines', isOptional: true },
      { name: 'tax_code_id', label: 'Tax code id', isOptional: true },
      {
        name: 'delete_mode',
        label: 'When an order is deleted',
        isOptional: true,
        options: { '': 'By default', void: 'Void its invoice', delete: 'Delete its invoice' },
      },
    ],
  },
  supplier_a: {
    title: 'Supplier A',
    purpose: 'A catalogue of garments, searched by style number.',
    settings: [{ name: 'base_url', label: 'Address' }],
    credentials: [
      { name: 'customer_number', label: 'Customer number' },
      { name: 'username', label: 'User name' },
      { name: 'password', label: 'Password', isSecret: true },
      { name: 'namespace', label: 'XML namespace of the service', isOptional: true },
    ],
  },
  supplier_b: {
    title: 'Supplier B',
    purpose: 'A catalogue of garments.',
    settings: [{ name: 'base_url', label: 'Address' }],
    credentials: [
      { name: 'account_number', label: 'Account number' },
      { name: 'api_key', label: 'API key', isSecret: true },
    ],
  },
  storage: {
    title: 'File storage',
    purpose: 'A bucket of your own for attachments and files. Without it the storage of this service is used.',
    settings: [
      { name: 'endpoint', label: 'Address of the S3 API', hint: 'With or without the bucket before its host.' },
      { name: 'bucket', label: 'Bucket' },
      { name: 'region', label: 'Region', hint: 'Known by itself for R2 and amazonaws.com.', isOptional: true },
      {
        name: 'addressing',
        label: 'Place of the bucket',
        isOptional: true,
        options: { '': 'By default', path: 'In the path', virtual: 'Before the host' },
      },
    ],
    credentials: [
      { name: 'access_key_id', label: 'Access key id' },
      { name: 'secret_access_key', label: 'Secret access key', isSecret: true },
    ],
  },
}
