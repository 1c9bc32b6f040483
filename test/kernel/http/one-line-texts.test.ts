import { describe, expect, it } from 'vitest'
import { createClient } from '../../../src/resources/clients/contract.ts'
import { expect200, mintCompany } from '../../support/app.ts'

const company = await mintCompany()
const clientId: number = (await company.call('POST', '/clients', { company_name: 'Acme' })).body.client.id
const { body } = await company.call('POST', '/orders', { title: 'Shirts', client_id: clientId })
const paths = { clients: `/clients/${clientId}`, orders: `/orders/${body.project.id}` }

/** Every control character (Unicode category Cc). */
const CONTROL_CHARACTERS = Array.from({ length: 0xa0 }, (_, code) => String.fromCharCode(code)).filter((character) =>
  /\p{Cc}/u.test(character),
)

const FIELDS = {
  clients: ['company_name', 'first_name', 'last_name', 'phone', 'website', 'tax_exempt_reason'],
  orders: ['title', 'start_date', 'tax_exempt_reason'],
}
/** Kept with the white space around them. */
const AS_SENT = ['website', 'start_date']

const LINES = ['POST', 'PATCH'].flatMap((method) =>
  (['clients', 'orders'] as const).flatMap((resource) =>
    FIELDS[resource].map((field) => [method, resource, field] as const),
  ),
)

function write(method: string, resource: keyof typeof paths, fields: Record<string, unknown>) {
  if (method === 'PATCH') return company.call('PATCH', paths[resource], fields)
  const required = resource === 'clients' ? { company_name: 'Acme' } : { title: 'Shirts', client_id: clientId }
  return company.call('POST', `/${resource}`, { ...required, ...fields })
}

describe('a text of one line', () => {
  it.each(LINES)('%s /%s refuses control characters in %s, and trims or refuses them at its ends', async (...line) => {
    const [method, resource, field] = line
    const issue = { path: field, message: 'must not contain control characters, such as line breaks or tabs' }
    for (const character of ['\n', '\u0085']) {
      const { status, body } = await write(method, resource, { [field]: `a${character}b` })
      expect([status, body.error]).toMatchObject([400, { code: 'invalid_request', details: { issues: [issue] } }])
    }
    const response = await write(method, resource, { [field]: '\r\n\t Acme \t\n' })
    expect(response.status).toBe(AS_SENT.includes(field) ? 400 : 200)
    if (response.status === 200) expect(JSON.stringify(response.body)).toContain(`"${field}":"Acme"`)
  })

  it('refuses each of the control characters', () => {
    expect(CONTROL_CHARACTERS).toHaveLength(65)
    const isAccepted = (text: string) => createClient.body.safeParse({ company_name: text }).success
    expect(isAccepted('a b')).toBe(true)
    expect(CONTROL_CHARACTERS.filter((character) => isAccepted(`a${character}b`))).toEqual([])
  })

  it.each(LINES)('%s /%s stores any other character in %s', async (method, resource, field) => {
    const text = '\u00a0Ünï e\u0301 株式会社 🧵\u2028 "x": \\ \u200d\u00ad\ufeff '
    const body = expect200(await write(method, resource, { [field]: text }))
    const stored = { ...body.client, ...body.project, ...(field === 'tax_exempt_reason' && body.invoice) }
    expect(stored[field]).toBe(AS_SENT.includes(field) ? text : text.trim())
  })
})

it.each(['description', 'client_notes'])('prose has line breaks and tabs, in %s', async (field) => {
  const text = 'First line\r\n\tsecond\nthird'
  for (const method of ['POST', 'PATCH']) {
    const response = await write(method, 'orders', { [field]: text })
    expect(response).toMatchObject({ status: 200, body: { project: { [field]: text } } })
  }
})
