import type { Page } from 'playwright-core'
import { beforeAll, beforeEach, expect } from 'vitest'
import examples from '../../src/site/reference/examples.json' with { type: 'json' }
import { readViolations, useBrowser, watchPage } from './browser.ts'

/** The developer settings of a new `dev` in a browser, which opens them as the sample company's owner. */
export function useSettings() {
  const opened = useBrowser()
  let page: Page
  let problems: string[]
  beforeAll(async () => {
    const context = await opened.browser.newContext({ viewport: { width: 1280, height: 900 } })
    await context.grantPermissions(['clipboard-read', 'clipboard-write'])
    page = await context.newPage()
    problems = await watchPage(page, opened.dev.url)
  })
  const forgetProblems = () => void problems.splice(0)
  beforeEach(forgetProblems)
  return {
    get dev() {
      return opened.dev
    },
    get page() {
      return page
    },
    forgetProblems,
    /** What the browser has reported in this test. */
    listProblems: async () => [...problems, ...(await readViolations(page))],
    /** Loads the page and shows a view. */
    async open(view: string) {
      // Another hash alone would not load the page again.
      await page.goto('about:blank')
      await page.goto(`${opened.dev.url}/settings#${view}`)
      await page.locator('.view:not([aria-busy])').waitFor()
    },
    dialog: () => page.getByRole('dialog'),
    /** The buttons with a name, or one that only begins with it. */
    button: (name: string) => page.getByRole('button', { name }),
    /** The items of a list with a heading. */
    row: (name: string) => page.getByRole('listitem').filter({ has: page.getByRole('heading', { name }) }),
    /** Reads from the administration API as the page does, in JSON. */
    async administer(path: string) {
      const response = await fetch(`${opened.dev.url}/admin/v1${path}`)
      return JSON.parse(await response.text())
    },
    /** The status of a request to the API with a token. */
    async requestStatus(token: string, path = '/clients?per_page=1', method = 'GET') {
      const response = await fetch(`${opened.dev.url}/api/v1${path}`, {
        method,
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        ...(method !== 'GET' && { body: '{}' }),
      })
      await response.body?.cancel()
      return response.status
    },
  }
}

/*
 * Responses of the administration API that show every state which the settings know: the published examples, but for what
 * makes the state.
 */
const DAY_MS = 86_400_000
const HOUR_MS = 3_600_000
const now = Math.floor(Date.now() / HOUR_MS) * HOUR_MS
const at = (ms: number) => new Date(now + ms).toISOString()
const page = <Item>(data: Item[], next_cursor: string | null = null) => ({
  data,
  pagination: { per_page: 100, next_cursor, has_more: next_cursor !== null },
})

const [token] = examples.listTokens.data
const TOKEN = { ...token, name: 'Warehouse sync', last_used_at: at(-3 * HOUR_MS), expires_at: at(50 * DAY_MS) }
const [INTEGRATION] = examples.listIntegrations.data
const [EVENT] = examples.listEvents.data
const [webhook] = examples.listWebhooks.data
const WEBHOOK = { ...webhook, url: 'https://hooks.example/crm', id: 'we_0123456789abcdef01', behind: 0, waiting: 0 }
const [DELIVERY] = examples.listWebhookDeliveries.data
const [ENTRY] = examples.listAudit.data

const USED = Array.from({ length: 24 }, (_, index) => ({
  hour: at((index - 23) * HOUR_MS),
  requests: Math.round(400 + 390 * Math.sin(index / 3)),
  refused: index === 9 ? 120 : 0,
  database_ms: Math.round(4_000 + 3_900 * Math.sin(index / 3)),
}))

const sum = (field: 'requests' | 'refused' | 'database_ms') => USED.reduce((total, hour) => total + hour[field], 0)

/** The webhook whose deliveries are among the responses. */
export const ENDPOINT = 'we_0123456789abcdef03'

/** By path below `/admin/v1`. */
export const RESPONSES: Record<string, unknown> = {
  '/me': {
    ...examples.readSession,
    companies: [
      { id: 1, name: 'Ridgeline Custom Apparel', role: 'owner' },
      { id: 2, name: 'Harbor Print & Stitch', role: 'developer' },
    ],
  },
  '/companies/1': { ...examples.readCompany, mail_bytes: 2_040_109_466 },
  '/companies/1/tokens': page([
    TOKEN,
    { ...TOKEN, id: 2, name: 'A_name_without_spaces_'.repeat(10), permissions: ['mail:read'] },
    { ...TOKEN, id: 3, name: 'Never used', last_used_at: null, expires_at: null, created_by: null },
    { ...TOKEN, id: 4, name: 'Old script', state: 'revoked', revoked_at: at(-DAY_MS) },
    { ...TOKEN, id: 5, name: 'Trial', state: 'expired', expires_at: at(-DAY_MS) },
  ]),
  '/companies/1/usage': {
    data: USED,
    totals: { requests: sum('requests'), refused: sum('refused'), database_ms: sum('database_ms') },
    incomplete: true,
  },
  '/companies/1/integrations': {
    data: [
      {
        ...INTEGRATION,
        kind: 'accounting_sync',
        settings: { token_url: null },
        state: 'reconnect_needed',
        reason: 'The access token was refused (invalid_grant)',
      },
      { ...INTEGRATION, kind: 'supplier_a', enabled: false, state: 'disabled' },
      INTEGRATION,
    ],
  },
  '/companies/1/accounting-events': page([
    {
      ...EVENT,
      order_id: 1002,
      state: 'parked',
      last_error: 'Several customers have the name “Harbor Rowing Club”: link the client to one of them',
    },
    { ...EVENT, order_id: 1003, operation: 'create', state: 'dead', attempts: 12, last_error: '400 '.repeat(80) },
    { ...EVENT, order_id: 1004, state: 'pending', next_attempt_at: at(2 * HOUR_MS), last_error: 'HTTP 503' },
  ]),
  '/companies/1/webhooks': page([
    WEBHOOK,
    { ...WEBHOOK, id: 'we_0123456789abcdef02', url: 'https://hooks.example/replay', replaying: true, behind: 1 },
    {
      ...WEBHOOK,
      id: 'we_0123456789abcdef03',
      url: `https://hooks.example/${'long/'.repeat(40)}`,
      event_types: ['order.created', 'order.updated'],
      enabled: false,
      disabled_reason: 'A delivery was answered with 410',
      behind: 1_234,
      waiting: 2,
      removed_changes: 200,
    },
  ]),
  '/companies/1/webhooks/we_0123456789abcdef03/deliveries': page([
    { ...DELIVERY, next_attempt_at: at(3 * HOUR_MS), last_error: 'The endpoint responded with 500' },
    {
      ...{ ...DELIVERY, sequence: 813, event_type: null, attempts: 0 },
      ...{ first_attempt_at: null, next_attempt_at: null, last_error: null },
    },
  ]),
  '/companies/1/members': page(examples.listMembers.data),
  '/companies/1/audit': page(
    Array.from({ length: 12 }, (_, index) => ({
      ...{ ...ENTRY, time: at(-index * HOUR_MS), address: '2001:db8:85a3:8d3:1319:8a2e:370:7348' },
      ...(index % 3 === 0 && { action: 'tokens.revoke', entity_id: String(index) }),
    })),
    'next',
  ),
}

/** Gives the settings every state, apart from `changes`. @returns the problems that the browser reports */
export async function serveStates(page: Page, url: string, changes: Record<string, unknown> = {}): Promise<string[]> {
  const problems = await watchPage(page, url)
  const responses = { ...RESPONSES, ...changes }
  await page.route('**/admin/v1/**', async (route) => {
    const { pathname, searchParams } = new URL(route.request().url())
    const path = pathname
      .replace('/admin/v1', '')
      .replace('/companies/2', '/companies/1')
      .replace(/we_\w+/, ENDPOINT)
    if (!(path in responses)) {
      const message = `settings-support.ts has no response for ${path}`
      // The view shows the message. Thrown, it also fails the run for a request after a test's last check.
      await route.fulfill({ status: 404, json: { error: { message } } })
      throw new Error(message)
    }
    const state = searchParams.get('state')
    const response = responses[path] as { data: { state: string }[] }
    const data = response.data?.filter((each) => state === null || each.state === state)
    return route.fulfill({ json: { ...response, ...(data && { data }) } })
  })
  return problems
}

export async function openView(page: Page, url: string, id: string): Promise<void> {
  // Another hash alone would not load the page again.
  await page.goto('about:blank')
  await page.goto(`${url}/settings#${id}`)
  await page.locator('.view:not([aria-busy])').waitFor()
  expect(await page.getByRole('alert').allInnerTexts()).toEqual([])
}
