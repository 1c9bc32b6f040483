import { rm } from 'node:fs/promises'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { readDevVars } from '../../src/cli/local-runtime.ts'
import { browserSuite, hasChromium, launchBrowser } from './browser.ts'
import { makeStateFolder } from './cli-support.ts'
import { listen, startDev, startWrangler } from './servers.ts'

const AUDIENCE = 'settings-test'

/** The settings as people meet them whom Cloudflare Access has signed in: by a key of this test. */
describe.skipIf(!hasChromium)(browserSuite('the developer settings of people'), () => {
  let state: string
  let keys: Awaited<ReturnType<typeof listen>>
  let worker: Awaited<ReturnType<typeof startWrangler>>
  let browser: Browser
  let issuer: string
  let privateKey: CryptoKey

  beforeAll(async () => {
    state = await makeStateFolder()
    const dev = await startDev({ state })
    await dev.stop()

    const pair = await generateKeyPair('ES256', { extractable: true })
    privateKey = pair.privateKey
    const body = JSON.stringify({ keys: [{ ...(await exportJWK(pair.publicKey)), kid: 'test', alg: 'ES256' }] })
    keys = await listen((_request, response) => response.end(body))
    issuer = keys.url

    const vars = ['--var', `ACCESS_ISSUER:${issuer}`, '--var', `ACCESS_AUDIENCE:${AUDIENCE}`]
    worker = await startWrangler('--persist-to', state, ...vars)
    browser = await launchBrowser()
    await addMember('owner@shop.example', 'owner')
    await addMember('developer@shop.example', 'developer')
  })

  afterAll(async () => {
    await browser?.close()
    keys?.close()
    await worker?.stop()
    await rm(state, { recursive: true, force: true })
  })

  async function addMember(email: string, role: string): Promise<void> {
    const { ADMIN_TOKEN } = readDevVars()
    const { status } = await fetch(`${worker.url}/admin/v1/companies/1/members/${email}`, {
      method: 'PUT',
      headers: { authorization: `Bearer ${ADMIN_TOKEN}`, 'content-type': 'application/json' },
      body: JSON.stringify({ role }),
    })
    expect(status).toBe(200)
  }

  const sign = (email: string, audience = AUDIENCE) =>
    new SignJWT({ email })
      .setProtectedHeader({ alg: 'ES256', kid: 'test' })
      .setIssuer(issuer)
      .setAudience(audience)
      .setIssuedAt()
      .setExpirationTime('5m')
      .sign(privateKey)

  /** The settings as a person's browser opens them, behind the sign-in that adds its assertion. */
  async function openAs(assertion: string, path = '/settings'): Promise<Page> {
    const headers = { 'cf-access-jwt-assertion': assertion }
    const page = await browser.newPage({ extraHTTPHeaders: headers })
    onTestFinished(() => page.close())
    await page.goto(`${worker.url}${path}`)
    await page.locator('h1').waitFor()
    return page
  }

  it("refuse a stranger's email and say who is signed in", async () => {
    const page = await openAs(await sign('stranger@elsewhere.example'))
    const alert = page.getByRole('alert')
    await alert.waitFor()
    expect(await alert.innerText()).toMatch(/stranger@elsewhere\.example[\s\S]*Request [0-9a-f-]{36}/)
  })

  it('ask for a new sign-in where the assertion is for another application', async () => {
    const page = await openAs(await sign('owner@shop.example', 'another'))
    await page.getByText('Your session has ended.').waitFor()
    expect(await page.content()).not.toContain('Ridgeline')
  })

  it('let owners manage the members', async () => {
    const page = await openAs(await sign('Owner@Shop.example'), '/settings#members')
    await page.getByRole('button', { name: 'Add member' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Email').fill('new@shop.example')
    await dialog.getByRole('button', { name: 'Add member' }).click()
    await page.getByText('The member was added.').waitFor()
    await page.getByRole('button', { name: 'Edit: new@shop.example' }).click()
    await dialog.getByLabel('Role').selectOption('Owner')
    await dialog.getByRole('button', { name: 'Save' }).click()
    await page.getByText('new@shop.example was changed.').waitFor()
    await page.getByRole('button', { name: 'Remove: new@shop.example' }).click()
    await dialog.getByRole('button', { name: 'Remove member' }).click()
    await page.getByText('new@shop.example was removed.').waitFor()
    await expect.poll(() => page.getByText('new@shop.example', { exact: true }).count()).toBe(0)

    await page.getByRole('link', { name: 'Audit trail' }).click()
    await expect.poll(() => page.getByText('members.delete').count()).toBe(1)
    expect(await page.getByRole('row').nth(1).innerText()).toMatch(
      /members\.delete\s+new@shop\.example\s+owner@shop\.example/,
    )
  })

  it('show developers neither members nor changes of integrations', async () => {
    const page = await openAs(await sign('developer@shop.example'), '/settings#members')
    await page.getByRole('heading', { level: 1, name: 'API tokens' }).waitFor()
    expect(await page.getByRole('link', { name: 'Members' }).count()).toBe(0)
    await page.getByRole('link', { name: 'Integrations' }).click()
    await page.getByText('Owners can change them.').waitFor()
    expect(await page.getByRole('button', { name: /Edit|Set up|Test/ }).count()).toBe(0)
  })
})
