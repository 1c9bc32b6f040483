import type { Page } from 'playwright-core'
import { beforeAll, describe, expect, it } from 'vitest'
import { adminContracts } from '../support/endpoints.ts'
import { browserSuite, checkLook, hasChromium, LOOKS, listAxeFindings, listPale, useBrowser } from './browser.ts'
import { ENDPOINT, openView as openStates, RESPONSES, serveStates } from './settings-support.ts'

/** Each view, with the button that opens its largest form. */
const VIEWS: [id: string, form: RegExp | null][] = [
  ['tokens', /New token/],
  ['usage', /Change currency/],
  ['integrations', /Reconnect/],
  ['webhooks', /Add webhook/],
  ['accounting', /Retry all/],
  ['members', /Add member/],
  ['audit', null],
]

it.each(Object.keys(RESPONSES))('has the response of %s as the contract describes it', (path) => {
  const contract = adminContracts.find(
    (each) =>
      each.method === 'GET' && each.path.replace('{company_id}', '1').replace('{endpoint_id}', ENDPOINT) === path,
  )
  expect(contract?.response.safeParse(RESPONSES[path])).toMatchObject({ success: true })
})

describe.skipIf(!hasChromium)(browserSuite('the look of the developer settings'), () => {
  const open = useBrowser()

  const openSettings = (page: Page) => serveStates(page, open.dev.url)
  const openView = (page: Page, id: string) => openStates(page, open.dev.url, id)

  describe.each(LOOKS)('$width px wide, $scheme', (look) => {
    let page: Page
    let problems: string[]

    beforeAll(async () => {
      page = await open.browser.newPage({ viewport: { width: look.width, height: 900 }, colorScheme: look.scheme })
      problems = await openSettings(page)
    })

    it.each(VIEWS)('of %s has contrast and no overflow, and axe-core finds nothing', async (id, form) => {
      problems.length = 0
      await openView(page, id)
      await checkLook(page, problems, { ...look, folder: 'settings', name: id })
      for (const summary of await page.locator('summary').all()) await summary.click()
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(look.width)
      expect(await listAxeFindings(page)).toEqual([])
      if (!form) return
      await page.getByRole('button', { name: form }).first().click()
      const dialog = page.getByRole('dialog')
      await checkLook(page, problems, { ...look, folder: 'settings', name: `${id}-form`, part: dialog })
      expect(await listAxeFindings(page)).toEqual([])
    })
  })

  it.each([375, 768, 1280, 1920])('fits into %i px', async (width) => {
    const page = await open.newPage({ viewport: { width, height: 900 } })
    await openSettings(page)
    for (const [id] of VIEWS) {
      await openView(page, id)
      expect([id, await page.evaluate('document.documentElement.scrollWidth')]).toEqual([id, width])
      // On a narrow screen a table scrolls within its frame.
      const cut = "[...document.querySelectorAll('.scroll')].filter((one) => one.scrollWidth > one.clientWidth).length"
      if (width >= 1280) expect([id, await page.evaluate(cut)]).toEqual([id, 0])
    }
  })

  it('switches between the companies of a person, whose address names the chosen one', async () => {
    const page = await open.newPage()
    await openSettings(page)
    const requested: string[] = []
    page.on('request', (request) => requested.push(new URL(request.url()).pathname))
    await openView(page, 'tokens')
    await page.getByLabel('Company').selectOption('Harbor Print & Stitch')
    await expect.poll(() => requested).toContain('/admin/v1/companies/2/tokens')
    expect(page.url()).toContain('?company=2#tokens')
    // A developer there, who manages no members.
    expect(await page.getByRole('link', { name: 'Members' }).count()).toBe(0)
    await page.reload()
    expect(await page.getByLabel('Company').locator('option:checked').innerText()).toBe('Harbor Print & Stitch')
    await page.goBack()
    await expect.poll(() => page.getByLabel('Company').inputValue()).toBe('1')
  })

  it('says that the company of an address is not in the list, and opens no other', async () => {
    const page = await open.newPage()
    await openSettings(page)
    await page.goto(`${open.dev.url}/settings?company=77#tokens`)
    await page.getByText('Company 77 is not in your list.').waitFor()
    expect(await page.getByRole('navigation').getByRole('link').count()).toBe(0)
    await page.getByLabel('Company').selectOption('Harbor Print & Stitch')
    await page.getByRole('heading', { name: 'Tokens' }).waitFor()
  })

  it('keeps the chosen view behind the link that skips the navigation', async () => {
    const page = await open.newPage()
    await openSettings(page)
    await openView(page, 'usage')
    await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    expect(await page.evaluate('document.activeElement.id')).toBe('content')
    expect(await page.getByRole('heading', { level: 1 }).innerText()).toBe('Usage')
  })

  it('fails these checks with an unnamed button, pale text or an overflow', async () => {
    const page = await open.newPage({ viewport: { width: 390, height: 844 } })
    await openSettings(page)
    await openView(page, 'tokens')
    await page.evaluate(`document.querySelector('.view button').replaceChildren()`)
    expect(await listAxeFindings(page)).toEqual([expect.stringMatching(/^button-name /)])
    await page.evaluate(`document.querySelector('.lead').style.color = '#8a8a8a'`)
    await page.evaluate(`document.querySelector('.list').style.width = '500px'`)
    expect(await listPale(page)).toEqual([expect.stringMatching(/^A program that calls the API .*: 3\.45$/)])
    expect(await page.evaluate('probe.listOverflows()')).toContainEqual(expect.stringMatching(/^UL list/))
  })
})
