import type { Page } from 'playwright-core'
import { beforeEach, describe, expect, it } from 'vitest'
import { readDevVars } from '../../src/cli/local-runtime.ts'
import { browserSuite, hasChromium } from './browser.ts'
import { listen } from './servers.ts'
import { RESPONSES, useSettings } from './settings-support.ts'

/** Within which a revoked token is refused. */
const REVOCATION_MS = 30_000

describe.skipIf(!hasChromium)(browserSuite('the developer settings'), () => {
  const settings = useSettings()
  const { button, row, dialog, listProblems, requestStatus } = settings
  let page: Page

  beforeEach(async () => {
    page = settings.page
    await page.unrouteAll()
    await settings.open('tokens')
  })

  const expectRefused = (token: string) =>
    expect.poll(() => requestStatus(token), { timeout: REVOCATION_MS, interval: 500 }).toBe(401)

  /** Sends the form of a new token, that may read clients. */
  async function requestToken(name: string): Promise<void> {
    await button('New token').click()
    await dialog().getByLabel('Name').fill(name)
    await dialog().getByLabel('clients:read').check()
    await button('Create token').click()
  }

  async function createToken(name: string): Promise<string> {
    await requestToken(name)
    const token = await dialog().getByLabel(`Token of ${name}`).inputValue()
    await button('Done').click()
    await row(name).waitFor()
    return token
  }

  it("open as the sample company's owner in development", async () => {
    expect(await page.locator('header').innerText()).toContain('owner@ridgeline.example')
    expect(await page.locator('#company').innerText()).toBe('Ridgeline Custom Apparel')
    expect(await page.title()).toBe('API tokens – Ridgeline Custom Apparel – Developer settings')
    for (const name of ['Usage', 'Integrations', 'Webhooks', 'Accounting events', 'Members', 'Audit trail']) {
      await page.getByRole('link', { name }).click()
      await page.getByRole('heading', { level: 1, name }).waitFor()
      await page.locator('.view:not([aria-busy])').waitFor()
      expect(await page.getByRole('alert').allInnerTexts(), name).toEqual([])
      expect(await page.getByRole('link', { name }).getAttribute('aria-current')).toBe('page')
    }
    await page.goBack()
    await page.getByRole('heading', { level: 1, name: 'Members' }).waitFor()
    expect(await listProblems()).toEqual([])
  })

  it('show what the company stores, and the part of its quotas', async () => {
    const { ADMIN_TOKEN } = readDevVars()
    const changed = await fetch(`${settings.dev.url}/admin/v1/companies/1`, {
      method: 'PATCH',
      headers: { authorization: `Bearer ${ADMIN_TOKEN}`, 'content-type': 'application/json' },
      body: JSON.stringify({ mail_quota_bytes: 10_000_000, storage_quota_bytes: 5_000_000 }),
    })
    expect(changed.status).toBe(200)
    const { mail_bytes, stored_bytes } = await settings.administer('/companies/1')
    await settings.open('usage')
    const figures = (await page.locator('dl.figures').innerText()).split(/\s*\n+/)
    const beside = (label: string) => figures[figures.indexOf(label) + 1]
    const megabytes = (bytes: number) => Math.round(bytes / 100_000) / 10
    expect(stored_bytes).toBeGreaterThan(0)
    expect(beside('Stored mail')).toBe(`${megabytes(mail_bytes)} MB (${(mail_bytes / 100_000).toFixed(1)}%)`)
    expect(beside('Other stored data')).toBe(`${megabytes(stored_bytes)} MB (${(stored_bytes / 50_000).toFixed(1)}%)`)
  })

  it('make a token that is shown once, use it, rotate it and revoke it, with the keyboard alone', async () => {
    await button('New token').focus()
    await page.keyboard.press('Enter')
    // The name has the focus.
    await page.keyboard.type('Keyboard')
    const permission = dialog().getByLabel('clients:read')
    while (!(await permission.evaluate((element) => element.matches(':focus')))) await page.keyboard.press('Tab')
    await page.keyboard.press('Space')
    await page.keyboard.press('Enter')

    const secret = dialog().getByLabel('Token of Keyboard')
    await secret.waitFor()
    const token = await secret.inputValue()
    expect(token).toMatch(/^[0-9a-f]{64}$/)
    // It stays until it is closed on purpose, and Enter sends nothing again.
    const count = async () => (await settings.administer('/companies/1/tokens?per_page=100')).data.length
    const tokens = await count()
    await secret.press('Enter')
    for (let times = 0; times < 3; times++) await page.keyboard.press('Escape')
    expect(await secret.inputValue()).toBe(token)
    expect(await count()).toBe(tokens)
    await dialog().getByRole('button', { name: 'Copy' }).press('Enter')
    await dialog().getByText('Copied.').waitFor()
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(token)
    await button('Done').press('Enter')
    await page.getByText('The token was created.').waitFor()
    await row('Keyboard').getByText('Never used').waitFor()
    expect(await page.evaluate('document.activeElement.tagName')).toBe('H1')

    expect(await requestStatus(token)).toBe(200)
    expect(await requestStatus(token, '/clients', 'POST')).toBe(403)
    await page.reload()
    await row('Keyboard').waitFor()
    expect(await page.content()).not.toContain(token)
    expect(await page.evaluate('JSON.stringify([localStorage, sessionStorage]) + document.cookie')).not.toContain(token)
    const text = await row('Keyboard').innerText()
    expect(text).toContain('clients:read')
    expect(text).toContain('by owner@ridgeline.example')

    await button('Rotate: Keyboard').press('Enter')
    await dialog().getByLabel('The present token').selectOption('Works for 1 hour')
    await dialog().getByRole('button', { name: 'Rotate token' }).press('Enter')
    await secret.waitFor()
    const next = await secret.inputValue()
    await button('Done').click()
    expect(next).not.toBe(token)
    expect([await requestStatus(token), await requestStatus(next)]).toEqual([200, 200])

    await expect.poll(() => row('Keyboard').count()).toBe(2)
    for (let left = 2; left > 0; left -= 1) {
      await button('Revoke: Keyboard').first().press('Enter')
      await dialog().getByRole('button', { name: 'Revoke token' }).press('Enter')
      await page.getByText('Keyboard was revoked.').waitFor()
      await expect.poll(() => button('Revoke: Keyboard').count()).toBe(left - 1)
    }
    await Promise.all([expectRefused(token), expectRefused(next)])
    expect(await row('Keyboard').first().innerText()).toContain('Revoked')
    expect(await listProblems()).toEqual([])
  })

  it('keep a token when its revocation is cancelled', async () => {
    const token = await createToken('Kept')
    await button('Revoke: Kept').click()
    await dialog().getByRole('button', { name: 'Cancel' }).click()
    expect(await button('Revoke: Kept').evaluate((element) => element.matches(':focus'))).toBe(true)
    await button('Revoke: Kept').click()
    await page.keyboard.press('Escape')
    expect(await requestStatus(token)).toBe(200)
    expect(await button('Revoke: Kept').count()).toBe(1)
  })

  it('show what the API refuses in place, with the id of the request', async () => {
    await button('New token').click()
    await dialog().getByLabel('Name').fill('Without permissions')
    await button('Create token').click()
    const alert = dialog().getByRole('alert')
    await alert.waitFor()
    expect(await alert.innerText()).toMatch(/permissions[\s\S]*Request [0-9a-f-]{36}/)
    expect(await button('Create token').evaluate((element) => element.matches(':focus'))).toBe(true)
    // The same form can be sent again.
    await dialog().getByLabel('clients:read').check()
    await button('Create token').click()
    await dialog().getByLabel('Token of Without permissions').waitFor()
    await button('Done').click()
  })

  it.each([
    ['a redirect to the sign-in', { status: 302, headers: { location: 'https://sign-in.example/' } }],
    ['a 401', { status: 401, json: { error: { code: 'unauthenticated', message: 'Sign in', details: null } } }],
  ])('explain a session that has ended, told by %s', async (kind, response) => {
    await createToken(kind)
    await page.route('**/admin/v1/**', (route) => route.fulfill(response))
    await button(`Revoke: ${kind}`).click()
    await dialog().getByRole('button', { name: 'Revoke token' }).click()
    const alert = dialog().getByRole('alert')
    await alert.waitFor()
    expect(await alert.innerText()).toContain('Your session has ended.')
    await page.unroute('**/admin/v1/**')
    await alert.getByRole('button', { name: 'Sign in again' }).click()
    await row(kind).waitFor()
  })

  it('say so when there is no response, and what a failure was', async () => {
    await page.route('**/admin/v1/**/members*', (route) => route.abort())
    await page.getByRole('link', { name: 'Members' }).click()
    await page.getByText('There was no response').waitFor()
    await page.route('**/admin/v1/**/audit*', (route) =>
      route.fulfill({ status: 503, headers: { 'x-request-id': 'request-7' }, body: '<html>' }),
    )
    await page.getByRole('link', { name: 'Audit trail' }).click()
    await expect.poll(() => page.getByRole('alert').innerText()).toMatch(/responded with 503[\s\S]*Request request-7/)
  })

  it('show what was created although the response was lost, and advise to look for it', async () => {
    await page.route('**/admin/v1/**/tokens', async (route) => {
      if (route.request().method() !== 'POST') return route.fallback()
      await route.fetch()
      return route.abort()
    })
    await requestToken('Lost')
    await dialog().getByText('look whether it was done').waitFor()
    await page.unroute('**/admin/v1/**/tokens')
    await button('Cancel').click()
    await row('Lost').waitFor()
    expect(await page.getByText('The token was created.').count()).toBe(0)
  })

  it('say that there was no response where it ends too early', async () => {
    const server = await listen((_request, response) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': 100 })
      response.write('{"data":[', () => setTimeout(() => response.destroy(), 100))
    })
    await page.route('**/admin/v1/**/members*', (route) => route.continue({ url: `${server.url}/` }))
    await page.getByRole('link', { name: 'Members' }).click()
    await expect.poll(() => page.getByRole('alert').allInnerTexts()).toEqual([expect.stringContaining('no response')])
    server.close()
  })

  it('show every active token, however many have ended before', async () => {
    const { data } = RESPONSES['/companies/1/tokens'] as { data: { id: number; state: string }[] }
    const ended = data.filter(({ state }) => state === 'revoked')
    let requests = 0
    await page.route('**/admin/v1/companies/1/tokens?*', (route) => {
      requests += 1
      const state = new URL(route.request().url()).searchParams.get('state')
      const pagination = {
        per_page: 100,
        next_cursor: state === 'active' ? null : 'more',
        has_more: state !== 'active',
      }
      const page = Array.from({ length: 100 }, (_, index) => ({ ...ended[0], id: requests * 100 + index }))
      const active = data.filter((token) => token.state === 'active')
      return route.fulfill({ json: { data: state === 'active' ? active : page, pagination } })
    })
    await settings.open('tokens')
    expect(await button('Revoke: Warehouse sync').count()).toBe(1)
    // One page of those that are active, and at most ten of each state that has ended.
    expect(requests).toBe(21)
  })

  it('load failed deliveries whenever they are opened, and say that there are more', async () => {
    let response: object = { status: 503, body: '' }
    const deliveries = '/companies/1/webhooks/we_0123456789abcdef03/deliveries'
    const { data, pagination } = RESPONSES[deliveries] as { data: object[]; pagination: object }
    await page.route('**/admin/v1/**/webhooks?*', (route) =>
      route.fulfill({ json: RESPONSES['/companies/1/webhooks'] as object }),
    )
    await page.route('**/admin/v1/**/deliveries?*', (route) => route.fulfill(response))
    await settings.open('webhooks')
    const fold = page.locator('details').last()
    const open = async () => {
      await fold.locator('summary').click()
      await fold.locator('summary').click()
    }
    await fold.locator('summary').click()
    await fold.getByText('responded with 503').waitFor()
    response = { json: { data, pagination } }
    await open()
    await fold.getByText('order.updated').waitFor()
    expect(await fold.getByText('There are more.').count()).toBe(0)
    response = { json: { data, pagination: { ...pagination, next_cursor: 'more', has_more: true } } }
    await open()
    await fold.getByText('There are more.').waitFor()
  })

  it('show text of the company as text, never as markup', async () => {
    const name = '<img src=x onerror=alert(1)>'
    await createToken(name)
    expect(await page.locator('img').count()).toBe(0)
    const attempt = page.evaluate(`document.body.innerHTML = '<p>markup</p>'`)
    await expect(attempt).rejects.toThrow('TrustedHTML')
  })

  it('take nothing from a page of another origin, and are not shown in one', async () => {
    const tokens = async () => {
      const { data } = await settings.administer('/companies/1/tokens')
      return data.map(({ id, state }: { id: number; state: string }) => `${id} ${state}`)
    }
    await createToken('Own')
    const before = await tokens()
    const id = /(\d+) active/.exec(before.join('\n'))?.[1]
    const server = await listen((_, response) => response.setHeader('content-type', 'text/html').end(HOSTILE))
    const hostile = await page.context().newPage()
    await hostile.goto(`${server.url}/`)

    const body = JSON.stringify({ name: 'Planted', permissions: ['clients:read'], expires_at: null })
    const base = `${settings.dev.url}/admin/v1/companies/1/tokens`
    const outcomes = await hostile.evaluate(`attack(${JSON.stringify({ base, body, id })})`)
    // No response was readable; those of simple requests are opaque.
    expect(outcomes).toEqual({
      read: 'TypeError',
      'POST as JSON': 'TypeError',
      'POST as text': 'opaque',
      DELETE: 'TypeError',
      PUT: 'TypeError',
    })
    for (const encoding of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data']) {
      const answer = hostile.waitForResponse((each) => each.url() === base)
      await hostile.evaluate(`sendForm(${JSON.stringify({ base, body, encoding })})`)
      expect((await answer).status(), encoding).toBe(403)
    }
    const framed = hostile.waitForEvent('console', (message) => message.text().includes('frame-ancestors'))
    await hostile.evaluate(`frame('${settings.dev.url}/settings')`)
    await framed
    expect(await tokens()).toEqual(before)
    await hostile.close()
    server.close()
  })
})

/** A page that acts as the person who has opened it, where the browser lets it. */
const HOSTILE = `<!doctype html><title>Hostile</title><iframe name="target"></iframe><script>
  async function attack({ base, body, id }) {
    const attempts = {
      read: () => fetch(base, { credentials: 'include' }),
      'POST as JSON': () =>
        fetch(base, { method: 'POST', credentials: 'include', headers: { 'content-type': 'application/json' }, body }),
      'POST as text': () => fetch(base, { method: 'POST', mode: 'no-cors', credentials: 'include', body }),
      DELETE: () => fetch(base + '/' + id, { method: 'DELETE', credentials: 'include' }),
      PUT: () => fetch(base + '/' + id, { method: 'PUT', credentials: 'include', body }),
    }
    const outcomes = {}
    for (const [name, attempt] of Object.entries(attempts)) {
      outcomes[name] = await attempt().then(({ type }) => type, ({ name }) => name)
    }
    return outcomes
  }
  function sendForm({ base, body, encoding }) {
    const form = Object.assign(document.createElement('form'), { action: base, method: 'post', enctype: encoding, target: 'target' })
    // A form of text sends name=value: together they are the JSON.
    const cut = body.indexOf(':') + 1
    form.append(Object.assign(document.createElement('input'), { name: body.slice(0, cut) + '"', value: '",' + body.slice(1) }))
    document.body.append(form)
    form.submit()
  }
  function frame(url) {
    document.querySelector('iframe').src = url
  }
</script>`
