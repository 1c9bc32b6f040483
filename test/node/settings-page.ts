import type { Page } from 'playwright-core'
import { beforeAll, beforeEach } from 'vitest'
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
