import { access, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Browser, type BrowserContext, chromium, type Locator, type Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type RunningDev, startDev } from '../../src/cli/start-dev.ts'

const CHROMIUM = process.env.CHROMIUM_PATH ?? '/usr/bin/chromium'
const PROBE = join(import.meta.dirname, 'page-probe.js')
const PICTURES = join(import.meta.dirname, '../../.contract/page')
/** What WCAG 2.2 asks of text, at level AA. */
const CONTRAST = 4.5
/** One operation of each method: each has colours of its own. */
const OPERATIONS = ['Orders-updateOrder', 'Orders-deleteOrder', 'Clients-createClient', 'Mail-putEmailThread']

const hasChromium = await access(CHROMIUM).then(
  () => true,
  () => false,
)
const reason = `there is no Chromium at ${CHROMIUM}; install it, or name another place in CHROMIUM_PATH`
if (!hasChromium) console.warn(`The tests of the reference page are skipped: ${reason}.`)

interface Text {
  text: string
  contrast: number
}

interface Picture {
  brightness: number
  inkShare: number
}

describe.skipIf(!hasChromium)(`the reference page${hasChromium ? '' : ` (skipped: ${reason})`}`, () => {
  let dev: RunningDev
  let browser: Browser

  beforeAll(async () => {
    dev = await startDev()
    const args = ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage']
    browser = await chromium.launch({ executablePath: CHROMIUM, args })
    await mkdir(PICTURES, { recursive: true })
    console.log(`Pictures of the reference page: ${PICTURES}`)
  }, 180_000)

  afterAll(async () => {
    await browser?.close()
    await dev?.stop()
  }, 30_000)

  const looks = [1280, 390].flatMap((width) => (['light', 'dark'] as const).map((scheme) => ({ width, scheme })))

  describe.each(looks)('$width px wide, $scheme', ({ width, scheme }) => {
    let context: BrowserContext
    let page: Page
    let problems: string[]

    beforeAll(async () => {
      context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: scheme })
      ;({ page, problems } = await openPage(context, dev.url))
    }, 60_000)

    afterAll(() => context?.close())

    /** Takes a screenshot and checks contrast, overflows, background and the browser's reports. */
    async function look(name: string, part: Page | Locator = page): Promise<void> {
      const file = `${width}-${scheme}-${name}.png`
      const picture = await part.screenshot({ animations: 'disabled' })
      await writeFile(join(PICTURES, file), picture)
      const { brightness, inkShare }: Picture = await page.evaluate(
        `probe.describePicture('${picture.toString('base64')}')`,
      )
      expect(inkShare, `${file}: the share of what is not background`).toBeGreaterThan(0.02)
      expect(inkShare, `${file}: the share of what is not background`).toBeLessThan(0.98)
      if (scheme === 'light') expect(brightness, `${file}: the background`).toBeGreaterThan(0.8)
      else expect(brightness, `${file}: the background`).toBeLessThan(0.05)
      expect(await listPale(page), file).toEqual([])
      expect(await page.evaluate('probe.listOverflows()'), file).toEqual([])
      expect(await page.evaluate('document.documentElement.scrollWidth'), file).toBe(width)
      expect([...problems, ...(await readViolations(page))], file).toEqual([])
    }

    it('shows the introduction and every operation', async () => {
      await look('top')
      const document = await (await fetch(`${dev.url}/api/v1/openapi.json`)).text()
      const count = document.match(/"operationId"/g)?.length ?? 0
      expect(await page.locator('.opblock').count()).toBe(count)
      await page.locator('nav a', { hasText: 'Orders' }).click()
      await expectInView(page, '#operations-tag-Orders')
      await look('operations')
    }, 60_000)

    it('shows the parameters, examples and schemas of an operation', async () => {
      for (const operation of OPERATIONS) await open(page, operation)
      const operation = page.locator('#operations-Orders-updateOrder')
      await operation.locator('.responses-table').waitFor()
      expect(await operation.locator('.parameters').first().innerText()).toContain('The id of the order')
      expect(await operation.locator('pre.example').first().innerText()).toContain('"discount_amount_type"')
      await showAtTop(page, '#operations-Orders-updateOrder')
      await look('operation')

      const body = operation.locator('.opblock-section-request-body')
      await body.getByRole('tab', { name: 'Schema' }).click()
      await body.locator('.json-schema-2020-12-property').first().waitFor()
      expect(await body.innerText()).toContain('discount_amount_type')
      await showAtTop(page, '#operations-Orders-updateOrder .opblock-section-request-body')
      await look('schema')
    }, 90_000)

    it('executes an operation with a token', async () => {
      await page.locator('.scheme-container .authorize').click()
      const dialog = page.locator('.modal-ux')
      await dialog.locator('input').fill(dev.token)
      await look('authorize', dialog)
      await dialog.getByRole('button', { name: 'Apply credentials' }).click()
      await dialog.locator('.btn-done').click()
      await page.locator('.scheme-container .authorize.locked').waitFor()

      await open(page, 'Clients-listClients')
      const operation = page.locator('#operations-Clients-listClients')
      await operation.locator('.try-out__btn').click()
      await operation.locator('tr[data-param-name="q"] input').fill('rowing')
      await operation.locator('.execute').click()
      const response = operation.locator('.live-responses-table .response')
      await response.waitFor()
      expect(await response.locator('.response-col_status').innerText()).toMatch(/^200/)
      expect(await response.innerText()).toMatch(/"company_name": ".*Rowing/)
      await showAtTop(page, '#operations-Clients-listClients .live-responses-table')
      await look('response')
    }, 90_000)
  })

  it('follows a link to a group of operations', async () => {
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 } })
    const { page } = await openPage(context, `${dev.url}/#operations-tag-Orders`)
    await expectInView(page, '#operations-tag-Orders')
    await context.close()
  }, 60_000)

  it('fails these checks with pale text, an overflow or an inline script', async () => {
    const context = await browser.newContext({ viewport: { width: 390, height: 844 } })
    const { page } = await openPage(context, dev.url)
    await page.evaluate(`document.querySelector('.info p').style.color = '#8a8a8a'`)
    await page.evaluate(`document.querySelector('.opblock').style.width = '500px'`)
    await page.evaluate(`document.body.append(Object.assign(document.createElement('script'), { text: 'void 0' }))`)
    expect(await listPale(page)).toEqual([expect.stringMatching(/^A JSON API .*: 3\.45$/)])
    expect(await page.evaluate('probe.listOverflows()')).toContainEqual(expect.stringMatching(/^DIV opblock /))
    expect(await readViolations(page)).toEqual(['script-src-elem inline'])
    await context.close()
  }, 60_000)
})

/** The page once its operations are visible, and the problems that the browser reports. */
async function openPage(context: BrowserContext, url: string): Promise<{ page: Page; problems: string[] }> {
  const page = await context.newPage()
  const problems: string[] = []
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) problems.push(message.text())
  })
  page.on('pageerror', (error) => problems.push(error.message))
  page.on('requestfailed', (request) => problems.push(`${request.url()} failed`))
  page.on('request', (request) => {
    if (!/^(data|blob):/.test(request.url()) && new URL(request.url()).origin !== new URL(url).origin) {
      problems.push(`${request.url()} has another origin`)
    }
  })
  await page.addInitScript({ path: PROBE })
  await page.goto(url)
  await page.locator('.opblock').first().waitFor()
  return { page, problems }
}

async function open(page: Page, operation: string): Promise<void> {
  await page.locator(`#operations-${operation} .opblock-summary-control`).click()
  await page.locator(`#operations-${operation} .responses-table`).first().waitFor()
  // For the transition to end.
  await page.waitForTimeout(300)
}

async function listPale(page: Page): Promise<string[]> {
  const texts: Text[] = await page.evaluate('probe.listTexts()')
  expect(texts.length).toBeGreaterThan(100)
  return texts
    .filter(({ contrast }) => contrast < CONTRAST)
    .map(({ text, contrast }) => `${text}: ${contrast.toFixed(2)}`)
}

function readViolations(page: Page): Promise<string[]> {
  return page.evaluate('probe.violations')
}

async function showAtTop(page: Page, selector: string): Promise<void> {
  await page.evaluate(`document.querySelector('${selector}').scrollIntoView()`)
}

/** Waits for the scrolling to end. */
async function expectInView(page: Page, selector: string): Promise<void> {
  const readTop = async () => Math.abs((await page.locator(selector).boundingBox())?.y ?? Number.POSITIVE_INFINITY)
  await expect.poll(readTop, { timeout: 5_000 }).toBeLessThan(100)
}
