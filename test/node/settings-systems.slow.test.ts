import type { IncomingHttpHeaders } from 'node:http'
import { text } from 'node:stream/consumers'
import type { Page } from 'playwright-core'
import { beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { verifyWebhook } from '../../src/client/webhooks.ts'
import { look, spoil } from '../../src/simulators/steer.ts'
import { browserSuite, hasChromium } from './browser.ts'
import { ask } from './dev-server.ts'
import { listen } from './servers.ts'
import { useSettings } from './settings-support.ts'

/** Of the sample company: its change is an accounting event. */
const ORDER = '/orders/44'
/** A token may not know of a new endpoint for 25 s; `npm run dev` then delivers within a minute. */
const DELIVERY_MS = 100_000
const REJECTION = { Fault: { Error: [{ Message: 'Invalid Reference Id', code: '2500' }], type: 'ValidationFault' } }

/** Against the simulators of the other systems that `npm run dev` starts. */
describe.skipIf(!hasChromium)(browserSuite('the developer settings of other systems'), () => {
  const settings = useSettings()
  const { button, row, dialog, listProblems, requestStatus } = settings
  let page: Page
  let accounting: string

  beforeAll(async () => {
    page = settings.page
    const { data } = await settings.administer('/companies/1/integrations')
    accounting = data.find(({ kind }: { kind: string }) => kind === 'accounting_sync').base_url
  })

  beforeEach(() => spoil(accounting))

  async function changeOrder(title: string): Promise<void> {
    const { status } = await ask(settings.dev, 'PATCH', ORDER, { title })
    expect(status).toBe(200)
  }

  const expectDelivered = () =>
    expect
      .poll(async () => (await settings.administer('/companies/1/accounting-events')).data, { timeout: DELIVERY_MS })
      .toEqual([])

  /** Opens a view until it shows a text, which the delivery in the background brings about. */
  const openUntil = (view: string, name: string, text: string) =>
    expect
      .poll(
        async () => {
          await settings.open(view)
          return (await row(name).count()) === 0 ? '' : row(name).innerText()
        },
        { timeout: DELIVERY_MS, interval: 500 },
      )
      .toContain(text)

  it('show the requests of the last day', async () => {
    const readRequests = async () => {
      await settings.open('usage')
      return Number((await page.locator('dd').first().innerText()).replaceAll(',', ''))
    }
    const before = await readRequests()
    for (let sent = 0; sent < 5; sent += 1) await requestStatus(settings.dev.token)
    await expect.poll(readRequests, { timeout: 20_000 }).toBeGreaterThanOrEqual(before + 5)
    expect(await page.getByRole('row').count()).toBe(25)
    expect(await listProblems()).toEqual([])
  })

  it('test connections and say what is wrong', async () => {
    await settings.open('integrations')
    for (const name of ['Accounting system', 'Supplier A', 'Supplier B']) {
      await button(`Test connection: ${name}`).click()
      await row(name).locator('.good:not(.badge)').waitFor()
    }
    await spoil(accounting, { status: 500, times: -1 })
    await button('Test connection: Accounting system').click()
    await row('Accounting system').locator('.problem').waitFor()
    expect(await row('Accounting system').locator('.problem').innerText()).toContain('500')
    expect(await listProblems()).toEqual([])
  })

  it('disable an integration and enable it with the stored credentials', async () => {
    await settings.open('integrations')
    await button('Edit: Supplier B').click()
    await dialog().getByLabel('Use this integration').uncheck()
    await button('Save').click()
    await row('Supplier B').getByText('Disabled').waitFor()
    expect(await requestStatus(settings.dev.token, '/products?q=5000&supplier=supplier_b')).not.toBe(200)
    await button('Edit: Supplier B').click()
    expect(await dialog().getByLabel('API key').inputValue()).toBe('')
    await dialog().getByLabel('Use this integration').check()
    await button('Save').click()
    await row('Supplier B').getByText('Connected').waitFor()
    await button('Test connection: Supplier B').click()
    await row('Supplier B').locator('.good:not(.badge)').waitFor()
    expect(await listProblems()).toEqual([])
  })

  it('show which field of an integration is not valid', async () => {
    await settings.open('integrations')
    await button('Set up: File storage').click()
    await dialog().getByLabel('Address of the S3 API').fill('http://storage.example')
    await dialog().getByLabel('Bucket', { exact: true }).fill('files')
    await dialog().getByLabel('Access key id').fill('id')
    await dialog().getByLabel('Secret access key').fill('secret')
    await button('Save').click()
    const alert = dialog().getByRole('alert')
    await alert.waitFor()
    expect(await alert.innerText()).toMatch(/endpoint must be an https address/)
    await button('Cancel').click()
    expect(await row('File storage').innerText()).toContain('Not set up')
  })

  it('show a rejected event with its error and send it again', async () => {
    await spoil(accounting, { match: '^POST .*invoice', status: 400, times: -1, body: JSON.stringify(REJECTION) })
    await changeOrder('Rejected')
    await openUntil('accounting', 'Order 44', 'Dead')
    expect(await row('Order 44').innerText()).toContain('Invalid Reference Id')
    await spoil(accounting)
    await button('Retry: order 44').click()
    await dialog().getByRole('button', { name: 'Retry' }).click()
    await page.getByText('The event is sent again.').waitFor()
    await expectDelivered()
    await settings.open('accounting')
    await page.getByText('All events were delivered.').waitFor()
    expect(await listProblems()).toEqual([])
  })

  it('ask to reconnect where the consent is lost, and send what waits', async () => {
    const refused = { status: 401, times: -1, match: '/v3/' }
    const lost = { status: 400, times: -1, match: 'tokens/bearer', body: '{"error":"invalid_grant"}' }
    // Its accounting system has given out a refresh token.
    await changeOrder('Delivered')
    await expectDelivered()
    await spoil(accounting, lost, refused)
    await changeOrder('Waiting')
    await openUntil('integrations', 'Accounting system', 'Reconnect needed')
    expect(await row('Accounting system').innerText()).toContain('invalid_grant')

    await spoil(accounting)
    const { grants } = (await look<{ grants: Record<string, string> }>(accounting)).state
    const [[realm = '', consent = ''] = []] = Object.entries(grants)
    await button('Reconnect: Accounting system').click()
    const values = { 'Realm id': realm, 'Client id': 'local-client', 'Client secret': 'local-client-secret' }
    for (const [label, value] of Object.entries({ ...values, 'Refresh token': consent })) {
      await dialog().getByLabel(label).fill(value)
    }
    await button('Save').click()
    await row('Accounting system').getByText('Connected').waitFor()
    await expectDelivered()
    expect(await listProblems()).toEqual([])
  })

  it('add a webhook, show its secret once, and follow it until it is deleted', async () => {
    let status = 200
    const received: { body: string; headers: IncomingHttpHeaders }[] = []
    const receiver = await listen(async (request, response) => {
      const body = await text(request)
      received.push({ body, headers: request.headers })
      response.writeHead(status).end()
    })
    const url = `${receiver.url}/hook`

    await settings.open('webhooks')
    await button('Add webhook').click()
    await dialog().getByLabel('Address').fill('http://elsewhere.example/hook')
    await dialog().getByRole('button', { name: 'Add webhook' }).click()
    await dialog().getByRole('alert').getByText('url').waitFor()
    settings.forgetProblems()
    await dialog().getByLabel('Address').fill(url)
    await dialog().getByRole('button', { name: 'Add webhook' }).click()
    const secret = await dialog().getByLabel('Signing secret').inputValue()
    await button('Done').click()
    await row(url).getByText('Enabled').waitFor()
    await page.reload()
    await row(url).waitFor()
    expect(await page.content()).not.toContain(secret)

    await changeOrder('Sent to a webhook')
    await expect.poll(() => received.length, { timeout: DELIVERY_MS }).toBeGreaterThan(0)
    const [first] = received
    expect(verifyWebhook(first?.body ?? '', first?.headers ?? {}, secret).type).toBe('order.updated')
    await button(`New secret: ${url}`).click()
    await button('Create secret').click()
    const next = await dialog().getByLabel('Signing secret').inputValue()
    expect(next).not.toBe(secret)
    await button('Done').click()

    await button(`Edit: ${url}`).click()
    await button('Save').click()
    await page.getByText('Nothing was changed.').waitFor()

    const before = received.length
    const opened = Date.now()
    await button(`Replay: ${url}`).click()
    const end = Date.parse(await dialog().getByLabel('To').inputValue())
    expect(end).toBeGreaterThan(opened)
    await dialog().getByRole('button', { name: 'Replay' }).click()
    await page.getByText('The changes are sent again.').waitFor()
    await expect.poll(() => received.length, { timeout: DELIVERY_MS }).toBeGreaterThan(before)
    const last = received.at(-1)
    expect(verifyWebhook(last?.body ?? '', last?.headers ?? {}, next).type).toMatch(/^(client|order)\./)

    status = 410
    await changeOrder('Gone')
    await openUntil('webhooks', url, 'Disabled')
    expect(await row(url).locator('.problem').innerText()).toContain('410')
    status = 200
    await button(`Edit: ${url}`).click()
    await dialog().getByLabel('Deliver changes').check()
    const patched = page.waitForRequest((request) => request.method() === 'PATCH')
    await button('Save').click()
    // An address that no longer resolves is refused only where it is sent, and another person may have changed the events.
    expect(Object.keys((await patched).postDataJSON())).toEqual(['enabled'])
    await page.getByText('The webhook was changed.').waitFor()
    // The replay, which the endpoint had interrupted, comes first.
    await openUntil('webhooks', url, 'Enabled')

    await button(`Delete: ${url}`).click()
    await dialog().getByRole('button', { name: 'Delete webhook' }).click()
    await page.getByText('There is no webhook yet.').waitFor()
    receiver.close()
    expect(await listProblems()).toEqual([])
  })
})
