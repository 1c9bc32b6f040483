import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type BrowserContext, chromium, type Page, type Worker } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readSampleSeed } from '../../src/cli/sample-company.ts'
import { checkSeed } from '../../src/cli/seed-file.ts'
import { browserSuite, CHROMIUM, hasChromium } from './browser.ts'
import { outputOf } from './cli-support.ts'
import { bundleModule, installClient } from './client-package.ts'
import { listen, type RunningDev, startDev } from './servers.ts'

const ROOT = join(import.meta.dirname, '../..')
/** Not a localhost name: by itself the local bucket allows only those origins. */
const PAGE_HOST = 'shop.test'
const RATE_LIMIT = 300

const threads = checkSeed(readSampleSeed(Date.now()), 'The sample company').thread_contexts.flatMap((context) =>
  Array.isArray(context.orders_data) && context.orders_data.length === 1 && context.legacy_thread_id
    ? [context.legacy_thread_id]
    : [],
)

/** The browser context in which `flow.js` runs. */
interface Place {
  evaluate: (expression: string) => Promise<unknown>
}

describe.skipIf(!hasChromium)(browserSuite('in a real browser'), () => {
  let dev: RunningDev
  let folder: string
  /** The extension, but for its permissions. */
  let built: string
  let pages: Awaited<ReturnType<typeof servePages>>
  const open: BrowserContext[] = []

  beforeAll(async () => {
    dev = await startDev()
    folder = await mkdtemp(join(tmpdir(), 'crm-extension-'))
    built = join(folder, 'built')
    await buildFlow(join(folder, 'project'), built)
    pages = await servePages(built)
  })

  afterAll(async () => {
    // One browser that fails to close must not block the others.
    await Promise.allSettled(open.map((context) => context.close()))
    pages?.close()
    await dev?.stop()
    if (folder) await rm(folder, { recursive: true, force: true })
  })

  /** A browser with the extension; `hostPermissions` lets it reach the API without CORS. */
  async function openExtension(hostPermissions: string[]): Promise<Worker> {
    const extension = await mkdtemp(join(folder, 'extension-'))
    await buildExtension(built, extension, hostPermissions)
    const browser = await launch([`--disable-extensions-except=${extension}`, `--load-extension=${extension}`])
    return browser.serviceWorkers()[0] ?? browser.waitForEvent('serviceworker')
  }

  async function openPage(): Promise<Page> {
    const browser = await launch([`--host-resolver-rules=MAP ${PAGE_HOST} 127.0.0.1`])
    const page = await browser.newPage()
    await page.goto(pages.url.replace('127.0.0.1', PAGE_HOST))
    await page.waitForFunction('globalThis.storeThread')
    return page
  }

  async function launch(args: string[]): Promise<BrowserContext> {
    const profile = await mkdtemp(join(folder, 'profile-'))
    const context = await chromium.launchPersistentContext(profile, {
      executablePath: CHROMIUM,
      headless: false,
      args: ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', ...args],
    })
    open.push(context)
    return context
  }

  function call(place: Place, name: string, input: object): Promise<unknown> {
    const access = { baseUrl: dev.url, token: dev.token, ...input }
    return place.evaluate(`${name}(${JSON.stringify(access)})`)
  }

  async function mintToken(): Promise<string> {
    const args = ['create', '--company', '1', '--name', 'browser test', '--state', dev.state]
    return (await outputOf('tokens', ...args)).trim()
  }

  const places: [string, () => Promise<Place>][] = [
    ['the worker of an extension without permissions', () => openExtension([])],
    ['the worker of an extension with the permission for the API', () => openExtension(['http://127.0.0.1/*'])],
    ['a page of another origin', openPage],
  ]

  describe.each(places)('%s', (_, openPlace) => {
    const legacyThreadId = threads.shift() ?? ''
    let place: Place

    beforeAll(async () => {
      place = await openPlace()
    })

    it('reads the context, uploads, stores the thread and lists the file, which a second run finds', async () => {
      const fileName = 'bordado (50%) +1 ñ.txt'
      const text = 'Bytes from a browser ✓'
      const stored = await call(place, 'storeThread', { legacyThreadId, fileName, text })
      const length = Buffer.byteLength(text)
      const key = expect.stringMatching(
        new RegExp(`^orders/1/\\d+/email/${legacyThreadId}/bordado \\(50%\\) \\+1 ñ\\.txt$`),
      )
      expect(stored).toMatchObject({
        context: { legacy_thread_id: legacyThreadId },
        result: { status: 'stored', missingKeys: [], attachments: [{ status: 'uploaded', storageKey: key }] },
        emailThread: { message_count: 1, messages: [{ attachments: [{ filename: fileName, storage_key: key }] }] },
        files: [{ path: key, objectName: fileName, length, source: 'email' }],
      })
      const again = await call(place, 'storeThread', { legacyThreadId, fileName, text: '' })
      expect(again).toMatchObject({ result: { status: 'stored', attachments: [{ status: 'already_stored' }] } })
    })

    it('sends keys and versions, and reads tags and the rate limit', async () => {
      const result = await call(place, 'createOnce', { name: crypto.randomUUID() })
      expect(result).toEqual({ isSame: true, version: 2, notModified: true, limit: RATE_LIMIT })
    })

    it('reads why the storage rejected an upload', async () => {
      const { body } = (await call(place, 'readError', { path: '/orders?per_page=1' })) as Orders
      const input = { legacyThreadId, orderId: body.data[0]?.id }
      expect(await call(place, 'uploadWrongly', input)).toEqual({
        status: 403,
        code: 'upload_failed',
        details: { storage_code: 'SignatureDoesNotMatch' },
      })
    })

    it('reads the errors 401, 404 and 429', async () => {
      expect(await call(place, 'readError', { token: '0'.repeat(64), path: '/clients' })).toMatchObject({
        status: 401,
        body: { error: { code: 'unauthenticated', details: { documentation_url: expect.any(String) } } },
        requestId: expect.any(String),
      })
      expect(await call(place, 'readError', { path: '/mail/threads/unknown' })).toMatchObject({
        status: 404,
        body: { error: { code: 'not_found' } },
      })
      const limited = await call(place, 'reachLimit', { token: await mintToken(), calls: 2 * RATE_LIMIT })
      expect(limited).toMatchObject({ status: 429, body: { error: { code: 'rate_limited' } } })
      expect((limited as { retryAfter: string }).retryAfter).toMatch(/^\d{1,2}$/)
    })
  })
})

interface Orders {
  body: { data: { id: number }[] }
}

/** Installs the client beside the sources of the extension, and bundles its flow as an extension loads it. */
async function buildFlow(project: string, target: string): Promise<void> {
  const source = join(ROOT, 'test/extension')
  await installClient(project)
  await cp(join(source, 'flow.js'), join(project, 'flow.js'))
  for (const name of ['manifest.json', 'worker.js']) await cp(join(source, name), join(target, name))
  await bundleModule(project, 'flow.js', target)
}

async function buildExtension(source: string, target: string, hostPermissions: string[]): Promise<void> {
  for (const name of ['flow.js', 'worker.js']) await cp(join(source, name), join(target, name))
  const manifest = JSON.parse(await readFile(join(source, 'manifest.json'), 'utf8'))
  await writeFile(join(target, 'manifest.json'), JSON.stringify({ ...manifest, host_permissions: hostPermissions }))
}

/** Serves a web page on another origin than the API. */
function servePages(target: string) {
  const page = `<!doctype html><title>Shop</title><link rel="icon" href="data:,">
    <script type="module">import * as flow from '/flow.js'; Object.assign(globalThis, flow)</script>`
  return listen(async ({ url = '/' }, response) => {
    if (url === '/') return void response.setHeader('content-type', 'text/html').end(page)
    if (url !== '/flow.js') return void response.writeHead(404).end()
    response.setHeader('content-type', 'text/javascript').end(await readFile(join(target, url)))
  })
}
