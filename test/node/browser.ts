import { access, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import axe from 'axe-core'
import { type Browser, type BrowserContextOptions, chromium, type Locator, type Page } from 'playwright-core'
import { afterAll, beforeAll, expect, onTestFinished } from 'vitest'
import { type RunningDev, startDev } from './servers.ts'

export const CHROMIUM = process.env.CHROMIUM_PATH ?? '/usr/bin/chromium'
const PROBE = join(import.meta.dirname, 'page-probe.js')
const PICTURES = join(import.meta.dirname, '../../.contract')
/** What WCAG 2.2 asks of text, at level AA. */
const CONTRAST = 4.5

export const hasChromium = await access(CHROMIUM).then(
  () => true,
  () => false,
)
const REASON = `there is no Chromium at ${CHROMIUM}; install it, or name another place in CHROMIUM_PATH`

/** The title of a suite, with the reason why it is skipped; a warning says so too. */
export function browserSuite(title: string): string {
  if (hasChromium) return title
  console.warn(`The tests of ${title} are skipped: ${REASON}.`)
  return `${title} (skipped: ${REASON})`
}

export function launchBrowser(): Promise<Browser> {
  const args = ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage']
  return chromium.launch({ executablePath: CHROMIUM, args })
}

/** `npm run dev` and a browser, from the first test of a suite to its last. */
export function useBrowser() {
  let dev: RunningDev
  let browser: Browser
  beforeAll(async () => {
    dev = await startDev()
    browser = await launchBrowser()
  })
  afterAll(async () => {
    await browser?.close()
    await dev?.stop()
  })
  return {
    get dev() {
      return dev
    },
    get browser() {
      return browser
    },
    /** A page in a context of its own, which ends with the test. */
    async newPage(options: BrowserContextOptions = {}) {
      const page = await browser.newPage(options)
      onTestFinished(() => page.close())
      return page
    },
  }
}

/** Every page is looked at wide and narrow, light and dark. */
export const LOOKS = [1280, 390].flatMap((width) => (['light', 'dark'] as const).map((scheme) => ({ width, scheme })))

type Look = (typeof LOOKS)[number]

/** Prepares a page for its checks, before it is opened. @returns the problems that the browser reports from now on */
export async function watchPage(page: Page, url: string): Promise<string[]> {
  const problems: string[] = []
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) problems.push(message.text())
  })
  page.on('pageerror', (error) => problems.push(error.message))
  page.on('requestfailed', (request) => {
    // What a page requests while it is left is aborted.
    const problem = request.failure()?.errorText
    if (problem !== 'net::ERR_ABORTED') problems.push(`${request.url()} failed: ${problem}`)
  })
  page.on('request', (request) => {
    if (!/^(data|blob):/.test(request.url()) && new URL(request.url()).origin !== new URL(url).origin) {
      problems.push(`${request.url()} has another origin`)
    }
  })
  await page.addInitScript({ path: PROBE })
  return problems
}

interface Picture {
  brightness: number
  inkShare: number
}

/** Takes a screenshot and checks contrast, overflows, background and the browser's reports. */
export async function checkLook(
  page: Page,
  problems: readonly string[],
  { width, scheme, folder, name, part = page }: Look & { folder: string; name: string; part?: Page | Locator },
): Promise<void> {
  const file = `${width}-${scheme}-${name}.png`
  const picture = await part.screenshot({ animations: 'disabled' })
  await mkdir(join(PICTURES, folder), { recursive: true })
  await writeFile(join(PICTURES, folder, file), picture)
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

/** The texts whose contrast is too low. */
export async function listPale(page: Page): Promise<string[]> {
  const texts: { text: string; contrast: number }[] = await page.evaluate('probe.listTexts()')
  expect(texts.length).toBeGreaterThan(10)
  return texts
    .filter(({ contrast }) => contrast < CONTRAST)
    .map(({ text, contrast }) => `${text}: ${contrast.toFixed(2)}`)
}

/** What the page's Content-Security-Policy has refused. */
export const readViolations = (page: Page): Promise<string[]> => page.evaluate('probe.violations')

interface Finding {
  id: string
  nodes: { target: string[]; failureSummary: string }[]
}

/** What axe-core finds on a page, one line each. Its script comes from outside the page, which allows none. */
export async function listAxeFindings(page: Page): Promise<string[]> {
  await page.evaluate(`globalThis.axe ?? (() => { ${axe.source} })()`)
  const findings: Finding[] = await page.evaluate('axe.run().then(({ violations }) => violations)')
  return findings.flatMap(({ id, nodes }) =>
    nodes.map(({ target, failureSummary }) => `${id} ${target.join(' ')}: ${failureSummary}`),
  )
}
