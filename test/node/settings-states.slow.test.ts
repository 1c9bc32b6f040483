import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { browserSuite, hasChromium, useBrowser } from './browser.ts'
import { openView, RESPONSES, serveStates } from './settings-support.ts'

const HOUR_MS = 3_600_000
const COMPANY = '/companies/1'
const WEBHOOKS = `${COMPANY}/webhooks`
const EVENTS = `${COMPANY}/accounting-events`
const TOKENS = `${COMPANY}/tokens`
const INTEGRATIONS = `${COMPANY}/integrations`
const MEMBERS = `${COMPANY}/members`

type Row = Record<string, unknown>
const rowsOf = (path: string) => (RESPONSES[path] as { data: Row[] }).data
const listOf = (...data: Row[]) => ({ data, pagination: { per_page: 100, next_cursor: null, has_more: false } })
/** The first row of a list, with some fields changed. */
const change = (path: string, fields: Row) => ({ ...rowsOf(path)[0], ...fields })

describe.skipIf(!hasChromium)(browserSuite('the states of the developer settings'), () => {
  const open = useBrowser()

  /** Shows a view with some responses changed. They may be changed again. */
  async function show(view: string, changes: Record<string, unknown> = {}) {
    const page = await open.newPage()
    await serveStates(page, open.dev.url, changes)
    await openView(page, open.dev.url, view)
    return page
  }

  const button = (page: Page, name: string) => page.getByRole('button', { name })
  const rows = (page: Page) => page.locator('.list > li').allInnerTexts()

  /** Answers the requests that change something. @returns those requests, as they arrive */
  async function recordChanges(page: Page, response: Row = {}) {
    const sent: { method: string; path: string; body: Row }[] = []
    await page.route('**/admin/v1/**', (route) => {
      const request = route.request()
      if (request.method() === 'GET') return route.fallback()
      sent.push({ method: request.method(), path: new URL(request.url()).pathname, body: request.postDataJSON() })
      return route.fulfill({ json: response })
    })
    return sent
  }

  it('say of a webhook that is behind none whether changes wait for a retry', async () => {
    const waits = change(WEBHOOKS, { waiting: 2 })
    const page = await show('webhooks', { [WEBHOOKS]: listOf(waits, change(WEBHOOKS, { url: 'https://two.example' })) })
    const [first, second] = await rows(page)
    expect(first).toContain('2 changes wait for a retry')
    expect(first).not.toContain('Up to date')
    expect(second).toContain('Up to date')
  })

  it('promise no next attempt at a webhook that is disabled', async () => {
    const changed = { [WEBHOOKS]: listOf(change(WEBHOOKS, {}), change(WEBHOOKS, { enabled: false })) }
    const page = await show('webhooks', changed)
    for (const summary of await page.locator('summary').all()) await summary.click()
    const failed = page.locator('.deliveries')
    await expect.poll(() => failed.count()).toBe(2)
    expect(await failed.first().innerText()).toContain('failed 3 times, next attempt in')
    expect(await failed.last().innerText()).toContain('failed 3 times')
    expect(await failed.last().innerText()).not.toContain('next attempt')
  })

  it.each([
    [true, 'The changes are sent again.'],
    [false, 'They are sent once the webhook is enabled.'],
  ])('say when a replay is sent, to a webhook whose enabled is %s', async (enabled, text) => {
    const page = await show('webhooks', { [WEBHOOKS]: listOf(change(WEBHOOKS, { enabled })) })
    await recordChanges(page)
    await button(page, 'Replay').click()
    await page.getByRole('dialog').getByRole('button', { name: 'Replay' }).click()
    await page.getByText(text).waitFor()
  })

  it('take no time of a replay that cannot be sent', async () => {
    const page = await show('webhooks', { [WEBHOOKS]: listOf(change(WEBHOOKS, {})) })
    const sent = await recordChanges(page)
    await button(page, 'Replay').click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('To').fill('123456-01-01T00:00')
    await dialog.getByRole('button', { name: 'Replay' }).click()
    expect(await dialog.getByLabel('To').evaluate((input) => input.matches(':out-of-range'))).toBe(true)
    expect([await page.getByRole('alert').count(), sent]).toEqual([0, []])
  })

  const WAITS = 'the integration is used or connected again, and deliveries are not paused'
  const pending = rowsOf(EVENTS).find(({ state }) => state === 'pending')

  it('say of a pending event whether it is retried', async () => {
    const page = await show('accounting', {
      [EVENTS]: listOf({ ...pending }, { ...pending, id: 8, next_attempt_at: null }),
    })
    const [retried, waiting] = await rows(page)
    expect(retried).toContain('Is retried automatically')
    expect(retried).toContain('Next attempt in')
    expect(waiting).toContain(`Waits until ${WAITS}`)
    expect(waiting).not.toMatch(/automatically|Next attempt/)
  })

  it.each([
    ['Retry', 'The event is sent again.', 'It is'],
    ['Retry all', 'The events are sent again.', 'They are'],
  ])('say when the events of %s are sent', async (label, text, subject) => {
    const dead = rowsOf(EVENTS).find(({ state }) => state === 'dead') ?? {}
    const changes = { [EVENTS]: listOf(dead) }
    const page = await show('accounting', changes)
    for (const [next_attempt_at, expected] of [
      ['2026-01-01T00:00:00.000Z', text],
      [null, `${subject} sent once ${WAITS}.`],
    ]) {
      const sent = await recordChanges(page)
      await page.route(`**${EVENTS}?state=pending*`, (route) =>
        route.fulfill({ json: listOf({ ...pending, next_attempt_at }) }),
      )
      await page
        .getByRole('button', { name: new RegExp(label === 'Retry' ? '^Retry: ' : '^Retry all') })
        .first()
        .click()
      await page.getByRole('dialog').getByRole('button', { name: label }).click()
      await page.getByText(expected ?? '').waitFor()
      expect(sent).toMatchObject([{ method: 'POST' }])
    }
  })

  it('list an event once that fails for good while the list is read', async () => {
    const page = await open.newPage()
    await serveStates(page, open.dev.url)
    const { promise: hasFailed, resolve: fail } = Promise.withResolvers<void>()
    await page.route(`**${EVENTS}?*`, async (route) => {
      const state = new URL(route.request().url()).searchParams.get('state')
      if (state === 'dead') await hasFailed
      await route.fulfill({ json: listOf(...(state === 'parked' ? [] : [{ ...pending, state }])) })
      if (state === 'pending') fail()
    })
    await openView(page, open.dev.url, 'accounting')
    expect(await rows(page)).toEqual([expect.stringContaining('Dead')])
  })

  it('say that a long list ends', async () => {
    const revoked = (count: number) => {
      const tokens = Array.from({ length: count }, (_, id) => change(TOKENS, { id, state: 'revoked' }))
      return { [TOKENS]: listOf(...tokens) }
    }
    const notes = async (count: number) =>
      (await show('tokens', revoked(count))).getByText('Of each state at most 1,000 are listed.').count()
    expect([await notes(999), await notes(1_000)]).toEqual([0, 1])
  })

  it('show the reason why nobody can sign in', async () => {
    const page = await open.newPage()
    const message = 'The settings have no sign-in: set ACCESS_ISSUER'
    await page.route('**/admin/v1/me', (route) =>
      route.fulfill({ status: 401, json: { error: { code: 'unauthenticated', message, details: null } } }),
    )
    await page.goto(`${open.dev.url}/settings`)
    await page.getByText(message).waitFor()
  })

  it('refuse to save an integration that another person has changed meanwhile', async () => {
    const page = await show('integrations')
    const sent = await recordChanges(page)
    const changed = { data: rowsOf(INTEGRATIONS).map((row) => ({ ...row, updated_at: new Date().toISOString() })) }
    const save = async () => {
      await button(page, 'Edit: Supplier B').click()
      await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click()
    }
    await page.route(`**${INTEGRATIONS}`, (route) => route.fulfill({ json: changed }))
    await save()
    await page.getByRole('alert').getByText('It was changed meanwhile: open the form again').waitFor()
    expect(sent).toEqual([])
    await button(page, 'Cancel').click()
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await save()
    await page.getByText('Supplier B was saved.').waitFor()
    expect(sent).toMatchObject([{ method: 'PUT', body: { enabled: true } }])
  })

  it('save an integration that is not used without credentials', async () => {
    const page = await show('integrations')
    const sent = await recordChanges(page)
    await button(page, 'Set up: File storage').click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Address of the S3 API').fill('https://storage.example')
    await dialog.getByLabel('Bucket', { exact: true }).fill('files')
    await dialog.getByRole('button', { name: 'Save' }).click()
    expect(await dialog.getByLabel('Access key id').evaluate((input) => input.matches(':invalid'))).toBe(true)
    await dialog.getByLabel('Use this integration').uncheck()
    await dialog.getByRole('button', { name: 'Save' }).click()
    await page.getByText('File storage was saved.').waitFor()
    expect(sent).toMatchObject([{ body: { enabled: false, endpoint: 'https://storage.example', bucket: 'files' } }])
    expect(sent[0]?.body).not.toHaveProperty('credentials')
  })

  it('send credentials as they were entered, and settings without the spaces around them', async () => {
    const page = await show('integrations')
    const sent = await recordChanges(page)
    await button(page, 'Edit: Supplier B').click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Address').fill(' https://supplier.example ')
    await dialog.getByLabel('Account number').fill('12')
    await dialog.getByLabel('API key').fill(' key ')
    await dialog.getByRole('button', { name: 'Save' }).click()
    await page.getByText('Supplier B was saved.').waitFor()
    const credentials = { account_number: '12', api_key: ' key ' }
    expect(sent).toMatchObject([{ body: { base_url: 'https://supplier.example', credentials } }])
  })

  it('add no member whom another person has added meanwhile', async () => {
    const page = await show('members')
    const sent = await recordChanges(page)
    const added = listOf(...rowsOf(MEMBERS), change(MEMBERS, { email: 'new@ridgeline.example' }))
    await page.route(`**${MEMBERS}?*`, (route) => route.fulfill({ json: added }))
    await button(page, 'Add member').click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Email').fill('New@ridgeline.example')
    await dialog.getByRole('button', { name: 'Add member' }).click()
    await dialog.getByText('This member is there already: edit the role.').waitFor()
    expect(sent).toEqual([])
  })

  it('add nobody again whom another person has removed meanwhile', async () => {
    const page = await show('members')
    const sent = await recordChanges(page)
    const left = rowsOf(MEMBERS).filter(({ email }) => email !== 'dev@ridgeline.example')
    await page.route(`**${MEMBERS}?*`, (route) => route.fulfill({ json: listOf(...left) }))
    await button(page, 'Edit: dev@ridgeline.example').click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Role').selectOption('Owner')
    await dialog.getByRole('button', { name: 'Save' }).click()
    await dialog.getByText('This member was removed meanwhile.').waitFor()
    expect(sent).toEqual([])
    await dialog.getByRole('button', { name: 'Cancel' }).click()
    await expect.poll(() => rows(page)).toHaveLength(left.length)
  })

  it.each([
    ['demote', 'Edit'],
    ['remove', 'Remove'],
  ])('offer owners who %s themselves only what they still may do', async (_, action) => {
    const page = await show('members')
    await recordChanges(page)
    const own = {
      actor: 'owner@ridgeline.example',
      operator: false,
      companies: [{ id: 1, name: 'One', role: 'developer' }],
    }
    await page.route('**/admin/v1/me', (route) => route.fulfill({ json: own }))
    await button(page, `${action}: dev@ridgeline.example`).click()
    const dialog = page.getByRole('dialog')
    const submit = dialog.getByRole('button', { name: action === 'Edit' ? 'Save' : 'Remove member' })
    await submit.click()
    await page.getByText(/^dev@ridgeline\.example was/).waitFor()
    expect(await page.getByRole('link', { name: 'Members' }).count()).toBe(1)
    await button(page, `${action}: owner@ridgeline.example`).click()
    await submit.click()
    await page.getByRole('heading', { level: 1, name: 'API tokens' }).waitFor()
    expect(await page.getByRole('link', { name: 'Members' }).count()).toBe(0)
  })

  it('keep the state of an item behind its name, whatever the name reverses', async () => {
    const named = change(`${COMPANY}/tokens`, { name: '\u202Egnp.exe' })
    const page = await show('tokens', { [`${COMPANY}/tokens`]: listOf(named) })
    const edges: [name: number, state: number] = await page.evaluate(`(() => {
      const heading = document.querySelector('.list h2')
      const name = document.createRange()
      name.selectNode(heading.firstChild)
      return [name.getBoundingClientRect().right, heading.querySelector('.badge').getBoundingClientRect().left]
    })()`)
    expect(edges[0]).toBeLessThan(edges[1])
  })

  it('count the hours of a time ago, not the days of the calendar', async () => {
    const last_used_at = new Date(Date.now() - 47 * HOUR_MS).toISOString()
    const page = await show('tokens', { [`${COMPANY}/tokens`]: listOf(change(`${COMPANY}/tokens`, { last_used_at })) })
    expect(await rows(page)).toEqual([expect.stringContaining('Last used 1 day ago')])
  })
})
