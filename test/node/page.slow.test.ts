import type { Locator, Page } from 'playwright-core'
import { beforeAll, describe, expect, it } from 'vitest'
import committed from '../../src/site/reference/openapi.json' with { type: 'json' }
import {
  browserSuite,
  checkLook,
  hasChromium,
  LOOKS,
  listAxeFindings,
  listPale,
  readViolations,
  useBrowser,
  watchPage,
} from './browser.ts'

describe.skipIf(!hasChromium)(browserSuite('the reference page'), () => {
  const open = useBrowser()

  describe.each(LOOKS)('$width px wide, $scheme', ({ width, scheme }) => {
    let page: Page
    let problems: string[]

    beforeAll(async () => {
      const context = await open.browser.newContext({ viewport: { width, height: 900 }, colorScheme: scheme })
      page = await context.newPage()
      problems = await openPage(page, open.dev.url)
    })

    const look = (name: string, part: Page | Locator = page) =>
      checkLook(page, problems, { width, scheme, folder: 'page', name, part })

    it('shows every operation beside its navigation and its examples', async () => {
      await look('top')
      const operations = page.locator('.operation')
      expect(await operations.count()).toBe(JSON.stringify(committed.paths).match(/"operationId"/g)?.length)
      if (width === 1280) {
        const panes: number[][] = await page.evaluate('probe.listPanes()')
        expect(panes.filter(([nav = 0, text = 0, endOfText = 0, code = 0]) => nav > text || endOfText > code)).toEqual(
          [],
        )
        // Without scrolling.
        expect((await operations.first().boundingBox())?.y).toBeLessThan(900)
      }
      await showAtTop(page, '#createOrder')
      await look('operation')
      expect(await page.locator('#createOrder .response pre').innerText()).toContain('"invoice_items"')
    })

    it.each(['first-request', 'monitoring', 'costs'])('shows the guide %s in the same look', async (name) => {
      const guide = await page.context().newPage()
      const problems = await openPage(guide, `${open.dev.url}/guides/${name}`)
      await checkLook(guide, problems, { width, scheme, folder: 'guides', name })
      expect(await listAxeFindings(guide)).toEqual([])
      await guide.close()
    })

    it('folds the fields of responses, errors and generic headers away', async () => {
      const operation = page.locator('#listClients')
      expect(await operation.innerText()).not.toContain('X-Bookmark')
      expect(await operation.getByText('1 to 100, default 25').isVisible()).toBe(true)
      await page.evaluate(`for (const details of document.querySelectorAll('details')) details.open = true`)
      expect(await operation.innerText()).toMatch(/X-Request-Id[\s\S]*X-Bookmark/)
      expect(await page.locator('#readOrder').innerText()).toContain('payments')
      await showAtTop(page, '#updateOrder')
      await look('open')
      await page.evaluate(`for (const details of document.querySelectorAll('details')) details.open = false`)
    })

    it('shows the examples of the chosen language, in every operation and after a reload', async () => {
      const tabs = page.locator('#createClient [role=tab]')
      const code = page.locator('#createClient .request pre:visible')
      for (const [index, text] of ['curl -X POST', 'await fetch(', 'requests.post('].entries()) {
        await tabs.nth(index).click()
        expect(await code.innerText()).toContain(text)
        expect(await code.count()).toBe(1)
        expect(await tabs.nth(index).getAttribute('aria-selected')).toBe('true')
        await look(`language-${index}`, page.locator('#createClient'))
      }
      await page.reload()
      expect(await page.locator('#listOrders .request pre:visible').innerText()).toContain('requests.get(')
      await tabs.last().press('ArrowRight')
      expect(await code.innerText()).toContain(`curl -X POST '${open.dev.url}/api/v1/clients'`)
    })

    it('finds sections by the words in them', async () => {
      const links = page.locator('#links a:visible')
      // No field has the focus, where a slash would be text.
      await page.reload()
      await page.locator('body').press('/')
      await page.keyboard.type('discount percentage')
      // The page filters after the last key.
      const shown = async () => {
        const texts = (await links.allInnerTexts()).join()
        return [texts.includes('Update an order'), texts.includes('Create a client')]
      }
      await expect.poll(shown).toEqual([true, false])
      expect(await page.locator('#found').innerText()).toMatch(/^\d+ sections found$/)
      await look('search')
      await page.keyboard.press('Control+A')
      await page.keyboard.type('retries with a random half')
      // A word of another section would make Enter follow its link.
      await expect.poll(() => links.allInnerTexts()).toEqual(['Retries'])
      await page.keyboard.press('Enter')
      await expectInView(page, '#guide-retries')
      await page.locator('#search').press('Escape')
      expect(await page.locator('#found').innerText()).toBe('')
    })

    it('sends a request with a token that is kept for the tab only', async () => {
      const operation = page.locator('#listClients')
      await operation.getByRole('button', { name: 'Try it' }).click()
      await operation.getByRole('button', { name: 'Send' }).click()
      expect(await operation.locator('.result').innerText()).toContain('Authorize first')

      const status = page.locator('#authorize [role=status]')
      const hasMe = '/me' in committed.paths
      const authorized = hasMe ? 'Authorized for this tab: Ridgeline Custom Apparel.' : 'Authorized for this tab.'
      await page.locator('#token').fill('wrong')
      await page.getByRole('button', { name: 'Authorize' }).click()
      expect(await status.innerText()).toContain('64 hexadecimal characters')
      await page.locator('#token').fill(open.dev.token)
      await page.getByRole('button', { name: 'Authorize' }).click()
      await expect.poll(() => status.innerText()).toBe(authorized)

      await page.reload()
      await expect.poll(() => status.innerText()).toBe(authorized)
      expect(await page.evaluate('JSON.stringify(localStorage) + document.cookie')).not.toContain(open.dev.token)
      const other = await page.context().newPage()
      await other.goto(open.dev.url)
      expect(await other.locator('#authorize [role=status]').innerText()).toBe('Kept for this tab only.')
      await other.close()

      await operation.getByRole('button', { name: 'Try it' }).click()
      await operation.getByLabel('q', { exact: true }).fill('rowing')
      await operation.getByRole('button', { name: 'Send' }).click()
      await expect.poll(() => operation.locator('.result').innerText()).toMatch(/^200 in \d+ ms/)
      expect(await operation.locator('.result pre').innerText()).toMatch(/"company_name": ".*Rowing/)
      await showAtTop(page, '#listClients .code')
      await look('response')

      await page.getByRole('button', { name: 'Forget' }).click()
      expect(await page.evaluate('sessionStorage.length')).toBe(0)
    })
  })

  it('sends the path, query, headers and body of a form', async () => {
    const page = await open.newPage()
    await openPage(page, open.dev.url)
    await page.evaluate(`sessionStorage.setItem('api-token', '${open.dev.token}')`)
    await page.reload()
    const operation = page.locator('#updateClient')
    await operation.getByRole('button', { name: 'Try it' }).click()
    await operation.getByLabel('id (required)').fill('ruth@harbor-rowing-club.example')
    await operation.getByLabel('Body').fill('{ "phone": "(555) 018-9999" }')
    const requests: string[] = []
    page.on('request', (each) => each.method() === 'PATCH' && requests.push(new URL(each.url()).pathname))
    await operation.getByRole('button', { name: 'Send' }).dblclick()
    await expect.poll(() => operation.locator('.result').innerText()).toContain('"phone": "(555) 018-9999"')
    expect(requests).toEqual(['/api/v1/clients/ruth%40harbor-rowing-club.example'])
  })

  it('says why a header cannot be sent', async () => {
    const page = await open.newPage()
    await openPage(page, open.dev.url)
    await page.evaluate(`sessionStorage.setItem('api-token', '${open.dev.token}')`)
    await page.reload()
    const operation = page.locator('#createClient')
    await operation.getByRole('button', { name: 'Try it' }).click()
    await operation.getByLabel('Idempotency-Key').fill('ключ')
    await operation.getByRole('button', { name: 'Send' }).click()
    await expect.poll(() => operation.locator('.result').innerText()).toMatch(/Headers.*ISO-8859-1/)
    await operation.getByLabel('Idempotency-Key').fill('key')
    await operation.getByLabel('Body').fill('{}')
    await operation.getByRole('button', { name: 'Send' }).click()
    await expect.poll(() => operation.locator('.result').innerText()).toMatch(/^400 in/)
  })

  it('selects an example that the browser does not let it copy', async () => {
    const page = await open.newPage()
    // As over http, from another machine.
    await page.addInitScript(`Object.defineProperty(navigator, 'clipboard', { value: undefined })`)
    const problems = await openPage(page, open.dev.url)
    const operation = page.locator('#listClients')
    await operation.getByRole('button', { name: 'Copy the request' }).click()
    await expect.poll(() => operation.locator('.copy').innerText()).toBe('Selected')
    expect(await page.evaluate('String(getSelection())')).toContain('curl ')
    expect(problems).toEqual([])
  })

  it.each(['', 'guides/deploy'])('prints all of its code, without the navigation: /%s', async (path) => {
    // On wide paper it has its wide look.
    const page = await open.newPage({ viewport: { width: 1280, height: 500 } })
    await page.emulateMedia({ media: 'print' })
    await openPage(page, `${open.dev.url}/${path}`)
    const cut = `[...document.querySelectorAll('pre, .code')].filter(
      (one) => one.checkVisibility() && one.scrollHeight > one.clientHeight + 1).length`
    expect(await page.evaluate(cut)).toBe(0)
    expect(await page.locator('body > nav').isVisible()).toBe(false)
  })

  it('shows its first content before a script has come, and all of it without scripts', async () => {
    const page = await open.newPage({ viewport: { width: 1280, height: 900 } })
    const held: string[] = []
    await page.route(/\.js$/, (route) => void held.push(route.request().url()))
    await page.goto(open.dev.url, { waitUntil: 'commit' })
    await page.locator('main section').first().waitFor()
    const painted = `performance.getEntriesByName('first-contentful-paint').length`
    await expect.poll(() => page.evaluate(painted)).toBe(1)
    expect(held).not.toEqual([])

    const plain = await open.newPage({ javaScriptEnabled: false })
    await plain.goto(`${open.dev.url}/#createOrder`)
    expect(await plain.locator('#createOrder').innerText()).toContain('curl -X POST')
  })

  it('follows a link to a group of operations', async () => {
    const page = await open.newPage({ viewport: { width: 1280, height: 900 } })
    await openPage(page, `${open.dev.url}/#tag-orders`)
    await expectInView(page, '#tag-orders')
  })

  it('fails these checks with pale text, an overflow or an inline script', async () => {
    const page = await open.newPage({ viewport: { width: 390, height: 844 } })
    await openPage(page, open.dev.url)
    await page.evaluate(`document.querySelector('#overview p').style.color = '#8a8a8a'`)
    await page.evaluate(`document.querySelector('.operation').style.width = '500px'`)
    await page.evaluate(`document.body.append(Object.assign(document.createElement('script'), { text: 'void 0' }))`)
    expect(await listPale(page)).toEqual([expect.stringMatching(/^A JSON API .*: 3\.45$/)])
    expect(await page.evaluate('probe.listOverflows()')).toContainEqual(expect.stringMatching(/^SECTION operation/))
    expect(await readViolations(page)).toEqual(['script-src-elem inline'])
  })
})

/** Shows a page with its operations. @returns the problems that the browser reports */
async function openPage(page: Page, url: string): Promise<string[]> {
  const problems = await watchPage(page, url)
  await page.goto(url)
  await page.locator('main section').first().waitFor()
  return problems
}

async function showAtTop(page: Page, selector: string): Promise<void> {
  await page.evaluate(`document.querySelector('${selector}').scrollIntoView()`)
}

/** Waits for the scrolling to end. */
async function expectInView(page: Page, selector: string): Promise<void> {
  const readTop = async () => Math.abs((await page.locator(selector).boundingBox())?.y ?? Number.POSITIVE_INFINITY)
  await expect.poll(readTop, { timeout: 5_000 }).toBeLessThan(100)
}
