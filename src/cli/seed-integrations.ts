import * as z from 'zod/mini'
import { oneLine } from '../http/contract.ts'
import { resolveStorage } from './seed-storage.ts'

const LOOPBACK = /^(localhost|127\.\d{1,3}\.\d{1,3}\.\d{1,3}|\[::1\])$/

function isAllowedAddress(value: string): boolean {
  const url = URL.parse(value)
  if (url === null || url.username !== '' || url.password !== '' || url.hash !== '') return false
  return url.protocol === 'https:' || (url.protocol === 'http:' && LOOPBACK.test(url.hostname))
}

const address = oneLine(1, 2048).check(
  z.refine(isAllowedAddress, 'must be an https address, or http on a loopback address'),
)
const secret = oneLine(1, 8192)

/** What the accounting system calls a customer, an item or a tax code: digits, mostly. */
export const accountingId = z.string().check(z.regex(/^[\w-]{1,64}$/, 'must be 1 to 64 letters, digits, _ or -'))

/** What each integration's `credentials` must hold. */
export const credentialForms = {
  supplier_a: z.strictObject({
    customer_number: secret,
    username: secret,
    password: secret,
    namespace: z.optional(oneLine(1, 2048)),
  }),
  supplier_b: z.strictObject({ account_number: secret, api_key: secret }),
  accounting_sync: z.strictObject({
    realm_id: secret,
    client_id: secret,
    client_secret: secret,
    refresh_token: secret,
    item_id: z.optional(accountingId),
    tax_code_id: z.optional(accountingId),
    delete_mode: z.optional(z.enum(['void', 'delete'])),
  }),
  storage: z.strictObject({ access_key_id: secret, secret_access_key: secret }),
} as const

/** An integration with what belongs to it; one that is switched off may have no credentials yet. */
function integration<Rest extends z.core.$ZodShape>(kind: keyof typeof credentialForms, rest: Rest) {
  const common = { enabled: z._default(z.boolean(), true), credentials: z.record(z.string(), z.string()) }
  const whole = z.strictObject({ ...common, ...rest }).check(({ value, issues }) => {
    const { enabled, credentials } = z.object(common).parse(value)
    if (!enabled && Object.keys(credentials).length === 0) return
    for (const { path, message } of credentialForms[kind].safeParse(credentials).error?.issues ?? []) {
      issues.push({ code: 'custom', path: ['credentials', ...path], message, input: undefined })
    }
  })
  return z.optional(whole)
}

const storagePlace = {
  endpoint: address,
  bucket: oneLine(1, 255),
  region: z.optional(oneLine(1, 64)),
  addressing: z.optional(z.enum(['path', 'virtual'])),
}

const storage = integration('storage', storagePlace).check(({ value, issues }) => {
  if (!value) return
  resolveStorage(value, (field, message) => {
    issues.push({ code: 'custom', path: [field], message, input: value[field] })
  })
})

export const integrationsFile = z.strictObject({
  supplier_a: integration('supplier_a', { base_url: address }),
  supplier_b: integration('supplier_b', { base_url: address }),
  accounting_sync: integration('accounting_sync', { base_url: address, token_url: z.optional(address) }),
  storage,
})

export type IntegrationsFile = z.output<typeof integrationsFile>
