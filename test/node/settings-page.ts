import type { BrowserContext, Page } from 'playwright-core'
import { launchBrowser, watchPage } from './browser.ts'
import { type RunningDev, startDev } from './start-dev.ts'

export type SettingsPage = Awaited<ReturnType<typeof openSettings>>

/** The developer settings of a new `dev` in a browser, which opens them as the sample company's owner. */
export async function openSettings() {
  const dev = await startDev()
  const browser = await launchBrowser()
  const context: BrowserContext = await browser.newContext({ viewport: { width: 1280, height: 900 } })
  await context.grantPermissions(['clipboard-read', 'clipboard-write'])
  const page: Page = await context.newPage()
  const problems = await watchPage(page, dev.url)
  return {
    dev,
    context,
    page,
    /** What the browser has reported. */
    problems,
    /** Loads the page and shows a view. */
    async open(view: string) {
      // Another hash alone would not load the page again.
      await page.goto('about:blank')
      await page.goto(`${dev.url}/settings#${view}`)
      await page.locator('.view:not([aria-busy])').waitFor()
    },
    dialog: page.getByRole('dialog'),
    /** The buttons with a name, or one that only begins with it. */
    button: (name: string) => page.getByRole('button', { name }),
    /** The items of a list with a heading. */
    row: (name: string) => page.getByRole('listitem').filter({ has: page.getByRole('heading', { name }) }),
    /** Sends a request to the administration API as the page does, in JSON. */
    async administer(path: string) {
      const response = await fetch(`${dev.url}/admin/v1${path}`)
      return JSON.parse(await response.text())
    },
    async close() {
      await browser.close()
      await dev.stop()
    },
  }
}

/** The status of a request to the API with a token. */
export async function requestStatus(dev: RunningDev, token: string, path = '/clients?per_page=1', method = 'GET') {
  const response = await fetch(`${dev.url}/api/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    ...(method !== 'GET' && { body: '{}' }),
  })
  await response.body?.cancel()
  return response.status
}
