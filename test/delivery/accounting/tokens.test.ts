import fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
import { getDefaultTokenUrl, type Tokens } from '../../../src/delivery/accounting/adapter.ts'
import { readFault, redactSecrets } from '../../../src/delivery/accounting/transport.ts'
import {
  CREDENTIALS,
  makeFault,
  makeLowerFault,
  makeXmlFault,
  SPOILT,
} from '../../../src/simulators/accounting-data.ts'
import { fail, REALM, World } from './support.ts'

const TOKEN = '^POST /oauth2'

function openWorld() {
  const world = new World()
  return { world, adapter: world.connect() }
}

async function countRefreshes(world: World): Promise<number> {
  return (await world.lines()).filter((line) => line.startsWith('POST /oauth2')).length
}

describe('access tokens', () => {
  it('are requested when there is none, and reused', async () => {
    const { world, adapter } = openWorld()
    await adapter.findInvoices('1')
    await adapter.findInvoices('2')
    expect(await countRefreshes(world)).toBe(1)
    const [stored] = world.saved
    expect(stored?.refresh_token).not.toBe(CREDENTIALS.refresh_token)
    expect(stored?.access_good_until).toBeGreaterThan(Date.now() + 3_500_000)
    const again = world.connect(stored ? { tokens: stored } : {})
    await again.findInvoices('3')
    expect(await countRefreshes(world)).toBe(1)
  })

  it('are requested as the protocol says', async () => {
    const world = new World()
    await world.connect().findInvoices('1')
    const { calls } = await world.look()
    expect(calls[0]).toMatchObject({
      method: 'POST',
      path: '/oauth2/v1/tokens/bearer',
      headers: {
        authorization: `Basic ${btoa(`${CREDENTIALS.client_id}:${CREDENTIALS.client_secret}`)}`,
        'content-type': 'application/x-www-form-urlencoded',
      },
      body: `grant_type=refresh_token&refresh_token=${CREDENTIALS.refresh_token}`,
    })
  })

  it.each([
    ['https://quickbooks.api.intuit.com', 'https://oauth.platform.intuit.com/oauth2/v1/tokens/bearer'],
    ['https://sandbox-quickbooks.api.intuit.com', 'https://oauth.platform.intuit.com/oauth2/v1/tokens/bearer'],
    ['https://accounting.example/api', 'https://accounting.example/api/oauth2/v1/tokens/bearer'],
    ['https://constructor', 'https://constructor/oauth2/v1/tokens/bearer'],
  ])('are requested, with the API at %s, at %s', (baseUrl, tokenUrl) => {
    expect(getDefaultTokenUrl(baseUrl)).toBe(tokenUrl)
  })

  it.each([
    ['404', { status: 404, body: '{"message":"No route"}' }],
    ['405', { status: 405, body: '' }],
    ['a page', { status: 200, headers: { 'content-type': 'text/html' }, body: ' <html>Sign in</html>' }],
    ['a page with 403', { status: 403, body: '<!doctype html><p>No' }],
    ['a redirect', { status: 302, headers: { location: '/login' }, body: '' }],
  ])('stop the company when their address responds with %s', async (_name, fault) => {
    const world = new World()
    const token_url = `${world.baseUrl}/tokens?key=hidden`
    await world.spoil({ match: '^POST /tokens', ...fault })
    const error = await fail(world.connect({ settings: { ...world.settings(), token_url } }).findInvoices('1'))
    expect(error.failure).toBe('no_token_endpoint')
    expect(error.message).toBe(
      `There is no token endpoint at ${world.baseUrl}/tokens: set token_url of the accounting_sync integration.`,
    )
  })

  it('are renewed before they expire', async () => {
    const world = new World()
    const start = Date.now()
    const clock = vi.spyOn(Date, 'now').mockReturnValue(start)
    const adapter = world.connect()
    await adapter.findInvoices('1')
    clock.mockReturnValue(start + 3_539_000)
    await adapter.findInvoices('1')
    expect(await countRefreshes(world)).toBe(1)
    clock.mockReturnValue(start + 3_541_000)
    await adapter.findInvoices('1')
    expect(await countRefreshes(world)).toBe(2)
    clock.mockRestore()
  })

  it('are renewed once when refused, and the call repeated once', async () => {
    const { world, adapter } = openWorld()
    await adapter.findInvoices('1')
    await world.steer({ action: 'expire_access' })
    expect(await adapter.findInvoices('1')).toEqual([])
    expect((await world.lines()).slice(-3)).toEqual([
      `GET /v3/company/${REALM}/query`,
      'POST /oauth2/v1/tokens/bearer',
      `GET /v3/company/${REALM}/query`,
    ])

    await world.spoil({ match: '^GET', times: -1, ...SPOILT.tokenExpired })
    const error = await fail(adapter.findInvoices('1'))
    expect(error.failure).toBe('token')
    expect(await countRefreshes(world)).toBe(3)
  })

  it('are renewed once for concurrent calls', async () => {
    const { world, adapter } = openWorld()
    await Promise.all(['1', '2', '3', '4'].map((number) => adapter.findInvoices(number)))
    expect(await countRefreshes(world)).toBe(1)
    await world.steer({ action: 'expire_access' })
    await Promise.all(['1', '2', '3', '4'].map((number) => adapter.findInvoices(number)))
    expect(await countRefreshes(world)).toBe(2)
  })
})

describe('the refresh token', () => {
  it('is stored before the access token is used', async () => {
    const world = new World()
    const order: string[] = []
    const adapter = world.connect({
      saveTokens: async () => {
        await new Promise((resolve) => setTimeout(resolve, 100))
        order.push(...(await world.lines()), 'stored')
      },
    })
    await adapter.findInvoices('1')
    expect(order).toEqual(['POST /oauth2/v1/tokens/bearer', 'stored'])
    expect((await world.lines()).at(-1)).toBe(`GET /v3/company/${REALM}/query`)
  })

  it('that could not be stored is stored at the next call, and not renewed again', async () => {
    const world = new World()
    const stored: Tokens[] = []
    let broken = true
    const adapter = world.connect({
      saveTokens: async (tokens) => {
        if (broken) throw new Error('No database')
        stored.push(tokens)
      },
    })
    await expect(adapter.findInvoices('1')).rejects.toThrow('No database')
    expect(await world.lines()).toEqual(['POST /oauth2/v1/tokens/bearer'])
    broken = false
    await adapter.findInvoices('1')
    expect(await countRefreshes(world)).toBe(1)
    expect(stored[0]?.refresh_token).toBe((await world.look()).state.grants[REALM])
  })

  it.each([
    ['a wrong secret', 'grant_lost', {}, 'wrong'],
    ['a failing token endpoint', 'transient', SPOILT.unavailable, null],
    ['a failing token endpoint without a page', 'transient', { status: 500, body: '' }, null],
    ['a throttled token endpoint', 'throttle', SPOILT.throttled, null],
    ['a throttled token endpoint with a page', 'throttle', { status: 429, body: '<html>Slow</html>' }, null],
    ['a refusal', 'grant_lost', { status: 404, body: '{"error":"invalid_client"}' }, null],
    ['no token in the response', 'transient', { status: 200, body: '{}' }, null],
    ['an access token with a line break', 'transient', { status: 200, body: '{"access_token":"a\\r\\nb"}' }, null],
  ])('%s: %s', async (_name, expected, fault, secret) => {
    const world = new World()
    if (Object.keys(fault).length > 0) await world.spoil({ match: TOKEN, ...fault })
    const settings = world.settings()
    const adapter = world.connect({ settings: secret ? { ...settings, client_secret: secret } : settings })
    expect((await fail(adapter.findInvoices('1'))).failure).toBe(expected)
    expect(world.saved).toEqual([])
  })
})

describe('readFault', () => {
  it.each([
    ['upper-case', makeFault('6070', 'Wrong amount', 'Line 1'), ['6070'], 'Wrong amount: Line 1', null],
    ['lower-case', makeLowerFault('3200', 'Token expired', 'AUTHENTICATION'), ['3200'], 'Token expired', null],
    ['XML', makeXmlFault('3001', 'Slow down'), ['3001'], 'message=Slow down; errorCode=003001', null],
    ['XML with a prefix', "<a:Fault><a:Error code='003001'/></a:Fault>", ['3001'], '', null],
    ['OAuth', '{"error":"invalid_grant","error_description":"Expired"}', [], 'Expired', 'invalid_grant'],
    ['a number as code', '{"Fault":{"Error":[{"code":610}]}}', ['610'], '', null],
    ['leading zeros', '{"fault":{"error":[{"code":"003001"}]}}', ['3001'], '', null],
    ['no list', '{"Fault":{"Error":{"code":"5010","Message":"Stale"}}}', ['5010'], 'Stale', null],
    ['several', '{"Fault":{"Error":[{"code":"2020"},{"code":"6000"}]}}', ['2020', '6000'], '', null],
    ['no error in it', '{"Fault":{}}', [], '', null],
  ])('reads a fault: %s', (_name, body, codes, message, oauthError) => {
    expect(readFault(body)).toEqual({ codes, message, oauthError })
  })

  it.each([
    '',
    '{}',
    '[]',
    'null',
    '{"Invoice":{"Id":"1"}}',
    '<html><body>Fault</body></html>',
    '{"Fault":null}',
    '{"a',
  ])('finds no fault in %s', (body) => {
    expect(readFault(body)).toBeNull()
  })

  it('never throws', () => {
    fc.assert(fc.property(fc.oneof(fc.string(), fc.json()), (body) => void readFault(body)))
  })
})

const MAX = 300

describe('redactSecrets', () => {
  it.each([
    ['a secret', 'No s3cret! here', ['s3cret!'], 'No [secret] here'],
    ['a secret as a URL encodes it', 'No a%2Fb%20c here', ['a/b c'], 'No [secret] here'],
    ['a secret as a form encodes it', 'No a%2Fb+%7Ec here', ['a/b ~c'], 'No [secret] here'],
    ['a secret that holds another', 'No abcdef here', ['abc', 'abcdef'], 'No [secret] here'],
    [
      'a secret within the mark of another',
      'A system, a secret',
      ['s', 'secret'],
      'A [secret]y[secret]tem, a [secret]',
    ],
    ['a long word with a digit', `No ${'x'.repeat(23)}1 here`, [], 'No [secret] here'],
    ['a long word of letters', `No ${'x'.repeat(24)} here`, [], `No ${'x'.repeat(24)} here`],
    ['a secret that is not well formed', 'No secret here', ['', '\ud800'], 'No secret here'],
  ])('handles %s', (_name, text, secrets, expected) => {
    expect(redactSecrets(text, secrets)).toBe(expected)
  })

  it('cuts any text to the length', () => {
    for (const unit of ['%', '%1', 'a1 ', '=', ' ', '1'.repeat(23)]) {
      expect(redactSecrets(unit.repeat(4_000_000 / unit.length), ['secret']).length).toBeLessThanOrEqual(MAX)
    }
  })

  it('never shows the beginning of a secret that the cut would halve', () => {
    const secret = fc.string({ unit: fc.constantFrom(...'abc/+ é%'), minLength: 6, maxLength: 400 })
    fc.assert(
      fc.property(secret, secret, fc.nat(400), fc.nat(3), (first, second, at, gap) => {
        const text = `${'.'.repeat(at)}${first}${'.'.repeat(gap)}${second}${'.'.repeat(100)}`
        const shown = redactSecrets(text, [first, second]).replaceAll('[secret]', '')
        for (const each of [first, second]) expect(shown.includes(each.slice(0, 4))).toBe(false)
      }),
      { numRuns: 1_000 },
    )
  })

  it('never shows the beginning of an unknown token that the cut would halve', () => {
    for (let at = 270; at <= 310; at++) {
      const text = `${'. '.repeat(200).slice(0, at)} access-1001-0f9d8c7b6a5e4d3c2b1a0f9d8c7b6a5e`
      const shown = redactSecrets(text, [])
      expect(shown.replace('[secret]', '').replaceAll(/[. ]/g, '')).toBe('')
    }
  })
})
