import { describe, expect, it } from 'vitest'
import { chooseDelayMs, describeRetryRules, RETRY_RULES } from '../../src/client/errors.ts'
import { ApiError } from '../../src/client/index.ts'
import readme from '../../src/client/README.md?raw'
import document from '../../src/site/reference/openapi.json'
import { clientWith, headersOf, openCrm } from './support.ts'

const rules = describeRetryRules()

describe('the rules', () => {
  it('are published in the description and in the README of the client, word by word', () => {
    expect(document.info.description).toContain(rules)
    expect(readme).toContain(rules)
  })

  it('name every status and reason that they are about', () => {
    const lines = rules.split('\n').filter((line) => line.startsWith('- '))
    for (const [index, { statuses, reasons = [] }] of RETRY_RULES.entries()) {
      for (const status of statuses)
        expect(lines[index]).toContain(status === 0 ? 'no complete response' : `**${status}**`)
      for (const reason of reasons) expect(lines[index]).toContain(`\`${reason}\``)
    }
  })

  it.each([
    [0, null, null, 125, null],
    [429, null, 7, 7000, 7000],
    [429, null, null, 125, 125],
    [429, null, 121, null, null],
    [429, null, 9_999_999_999, null, null],
    [503, null, 2, 2000, 2000],
    [503, null, null, 125, null],
    [503, null, 0, 125, 125],
    [409, 'idempotency_key_in_use', 1, 1000, 1000],
    [409, 'integration_missing', 1, null, null],
    [500, null, null, 125, null],
    [502, null, null, 125, null],
    [502, 'supplier_unavailable', null, 125, null],
    [502, 'supplier_rejected_credentials', null, null, null],
    [409, 'credentials_unreadable', null, null, null],
    [504, null, null, 125, null],
    [520, null, null, 125, null],
    [530, null, 3, 3000, null],
    [408, null, null, 125, null],
    [200, null, null, null, null],
    [400, null, 1, null, null],
    [412, 'version_mismatch', null, null, null],
    [410, 'cursor_expired', null, null, null],
  ])(
    'for %i with reason %j and Retry-After %j choose a delay of %j ms, and for a PUT with a condition %j',
    (status, reason, retryAfterSeconds, delayMs, ofConditionalPut) => {
      const error = new ApiError({ status, code: 'x', message: 'x', details: { reason }, retryAfterSeconds })
      expect(chooseDelayMs(error, 0, 0)).toBe(delayMs)
      expect(chooseDelayMs(error, 0, 0, { isUnrepeatable: true })).toBe(ofConditionalPut)
    },
  )

  it('wait at most two minutes, and always, for a call without an end', () => {
    const error = new ApiError({ status: 503, code: 'x', message: 'x', retryAfterSeconds: 999_999_999 })
    expect(chooseDelayMs(error, 0, 0, { isEndless: true })).toBe(120_000)
  })

  it.each([
    [0, 0, 125],
    [0, 0.999, 250],
    [3, 0, 1000],
    [5, 0, 4000],
    [50, 0, 4000],
    [50, 1, 8000],
  ])('double the delay with retry %i, at random %d: %d ms', (retries, random, delayMs) => {
    expect(chooseDelayMs(new ApiError({ status: 0, code: 'x', message: 'x' }), retries, random)).toBe(delayMs)
  })
})

const seed = { clients: [{ id: 1, company_name: 'Oak' }] }

describe('the bookmark', () => {
  it('of the last response is sent with the next request', async () => {
    const { api, ...crm } = await openCrm(seed)
    await api.clients.list()
    await api.clients.create({ company_name: 'Elm' })
    await api.clients.list()
    expect(await headersOf(crm, 'x-bookmark')).toEqual([undefined, '00000000', '00000001'])
  })

  it('of an error response is sent too, and a response without one does not replace it', async () => {
    const { api, ...crm } = await openCrm(seed)
    await api.clients.create({ company_name: 'Elm' })
    await crm.spoil({ status: 404 })
    await api.clients.get(9).catch(() => {})
    await api.clients.get(9).catch(() => {})
    await api.clients.list()
    expect(await headersOf(crm, 'x-bookmark')).toEqual([undefined, '00000001', '00000001', '00000001'])
  })

  it('that is followed is sent unless a response had a newer one', async () => {
    const { api, ...crm } = await openCrm(seed)
    api.follow(null)
    api.follow('00000007')
    await crm.seed({ changes: 9 })
    await api.clients.list()
    api.follow('00000008')
    await api.clients.list()
    expect(await headersOf(crm, 'x-bookmark')).toEqual(['00000007', '00000009'])
  })

  it('is replaced by a smaller one after a restore of the database', async () => {
    const { api, ...crm } = await openCrm(seed)
    await crm.seed({ changes: 50 })
    await api.clients.list()
    await crm.seed({ changes: 3 })
    await api.clients.list()
    await api.clients.list()
    expect(await headersOf(crm, 'x-bookmark')).toEqual([undefined, '00000050', '00000003'])
  })

  it('of a write is not replaced by that of an older read which ends later', async () => {
    const responses = new Map<string, (bookmark: string) => void>()
    const sent: (string | null)[] = []
    const api = clientWith((_url, init) => {
      sent.push(new Headers(init.headers).get('x-bookmark'))
      return new Promise((resolve) => {
        const body = { data: [], pagination: {}, client: {} }
        const respond = (bookmark: string) => resolve(Response.json(body, { headers: { 'x-bookmark': bookmark } }))
        responses.set(init.method ?? '', respond)
      })
    })
    const read = api.clients.list()
    const write = api.clients.create({ company_name: 'Elm' })
    responses.get('POST')?.('0000-0006')
    await write
    responses.get('GET')?.('0000-0005')
    await read
    void api.clients.list()
    expect(sent).toEqual([null, null, '0000-0006'])
  })
})
