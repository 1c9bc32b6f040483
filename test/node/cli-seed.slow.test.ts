import dns from 'node:dns'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { readDevVars } from '../../src/cli/local-runtime.ts'
import { checkSeed, describeDifferences } from '../../src/cli/seed-file.ts'
import { decryptCredentials } from '../../src/kernel/db/credentials.ts'
import { integrationsFile } from '../../src/operation/copies/seed/integrations-file.ts'
import { s3Storage } from '../../src/resources/files/s3.ts'
import { startS3 } from '../../src/simulators/s3.ts'
import { S3_KEYS, S3_REGION } from '../../src/simulators/s3-keys.ts'
import { look } from '../../src/simulators/steer.ts'
import { smallShop } from '../support/small-shop.ts'
import {
  expectRefused,
  readAll,
  runCommand,
  runSql,
  servedState,
  stateWithLookAlike,
  writeSeed,
} from './cli-support.ts'

const key = readDevVars().CREDENTIALS_KEY ?? ''

describe('npm run seed', () => {
  it('loads a shop once: the same file again changes nothing', async () => {
    const state = await stateWithLookAlike()
    const path = await writeSeed(smallShop())
    const first = await runCommand('seed', path, '--state', state)
    expect(first).toEqual({
      code: 0,
      stderr: '',
      stdout:
        'Loaded company 1 (Shop 1): 2 statuses, 1 tax, 2 clients, 2 orders, 1 invoice, 1 line, 1 payment, 1 artwork, 1 catalogue item, 1 thread context, 2 integrations.\n',
    })
    const before = readAll(state, 1)
    expect(before.clients?.[0]).toMatchObject({
      company_name_key: 'ÜNÏON; -- "TEES" \'N\' MORE?',
      phone_digits: '5550100199',
    })
    expect(before.invoices).toMatchObject([
      { discount_hundredths: 1250, discount_amount_type: 'fixed_amount', tax_id: 1 },
    ])
    expect(before.payments).toMatchObject([{ amount_cents: 5000, paid_at: '2026-02-01T08:00:00.000Z' }])

    expect(await runCommand('seed', path, '--state', state)).toEqual(first)
    expect(readAll(state, 1)).toEqual(before)

    runSql(state, "UPDATE clients SET company_name = 'Renamed' WHERE company_id = 1 AND id = 1")
    const { code, stderr } = await runCommand('seed', path, '--state', state)
    expect([code, stderr.split('\n')[0]]).toEqual([0, 'client 1 already exists and differs: company_name'])
  })

  it('stores customers, tax codes and the token address of the accounting system', async () => {
    const state = await servedState()
    const shop = smallShop()
    shop.clients = [{ id: 1, company_name: 'Smith: Team Blue', accounting_customer_id: '58' }]
    shop.orders = []
    shop.taxes = [
      { id: 1, name: 'State', rate: 8.25, tax_code_id: '3' },
      { id: 2, name: 'None', rate: 0 },
    ]
    shop.integrations = {
      accounting_sync: {
        base_url: 'https://quickbooks.api.intuit.com',
        token_url: 'https://oauth.platform.intuit.com/oauth2/v1/tokens/bearer',
        credentials: { realm_id: '1', client_id: 'c', client_secret: 's', refresh_token: 'r', tax_code_id: '5' },
      },
    }
    expect(await runCommand('seed', await writeSeed(shop), '--state', state)).toMatchObject({ code: 0, stderr: '' })
    expect(readAll(state, 1)).toMatchObject({
      clients: [{ accounting_customer_id: '58', accounting_customer_linked: 1 }],
      taxes: [{ accounting_tax_code_id: '3' }, { accounting_tax_code_id: null }],
      integrations: [{ settings: '{"token_url":"https://oauth.platform.intuit.com/oauth2/v1/tokens/bearer"}' }],
    })
    const [integration] = readAll(state, 1).integrations ?? []
    const secret = await decryptCredentials(key, 1, 'accounting_sync', String(integration?.credentials))
    expect(secret).toMatchObject({ tax_code_id: '5' })

    shop.taxes = [{ id: 1, name: 'State', rate: 8.25, tax_code_id: null }]
    await runCommand('seed', await writeSeed(shop), '--state', state)
    expect(readAll(state, 1).taxes?.[0]).toMatchObject({ id: 1, accounting_tax_code_id: null })
  })

  it('rejects an invalid command or file with a one-line error and changes nothing', async () => {
    const state = await servedState()
    const good = await writeSeed(smallShop())
    await runCommand('seed', good, '--state', state)
    const before = readAll(state)

    const takenInvoice = smallShop()
    takenInvoice.orders = [{ id: 9, title: 'x', client_id: 1, invoice: { id: 1, number: '5' } }]
    const manyIssues = smallShop()
    manyIssues.company.name = ' '
    manyIssues.clients?.push({ id: 0, company_name: '' })

    const cases: [args: string[], message: string][] = [
      [[], 'Usage: npm run seed -- FILE.json'],
      [['/nowhere/shop.json'], '/nowhere/shop.json: no such file.'],
      [
        [await writeSeed('{\n "company": "secret')],
        'shop.json: line 2, column 13 is not valid JSON: unterminated string.',
      ],
      [[await writeSeed(manyIssues)], ' (line 1, column 20); `clients[2].id` must be '],
      [[good, '--state', join(state, 'new', 'deeper')], `--state: there is no directory '${join(state, 'new')}'.`],
      [[await writeSeed(takenInvoice)], 'shop.json: invoice 1 belongs to order 1 in the database'],
      [[good, '--remote', 'https://crm.example'], 'Set CRM_ADMIN_TOKEN to the ADMIN_TOKEN of https://crm.example'],
      [[good, '--state', good], 'it is not a writable directory'],
    ]
    await expectRefused('seed', state, cases, { CRM_ADMIN_TOKEN: '' })
    expect(readAll(state)).toEqual(before)
    expect(existsSync(join(state, 'new'))).toBe(false)
    expect(existsSync(join(import.meta.dirname, 'v3'))).toBe(false)
  })

  it('tells of at most 20 rows that differ, and counts the others', () => {
    const differences = Array.from({ length: 25 }, (_, id) => ({ type: 'client', id, fields: ['email', 'phone'] }))
    const line = 'client 19 already exists and differs: email, phone'
    const advice = 'Clients and orders that exist are not changed by a file: change them through the API.'
    expect(describeDifferences(differences).slice(19)).toEqual([line, 'and 5 more', advice])
    expect(describeDifferences(differences.slice(0, 20))).toHaveLength(21)
    expect(describeDifferences([])).toEqual([])
  })
})

const BUCKET = 'shop-files'
const KEYS = { access_key_id: 'a', secret_access_key: 's' }

/** A storage of a seed file as it is read. */
function readStorage(fields: object) {
  const { storage } = integrationsFile.parse({ storage: { credentials: KEYS, ...fields } })
  if (!storage) throw new Error('There is no storage.')
  return storage
}

describe('a storage in a seed file', () => {
  const aws = 'https://s3.eu-west-1.amazonaws.com'
  it.each([
    [{ endpoint: aws }, { endpoint: aws, addressing: 'path' }],
    [
      { endpoint: aws, addressing: 'virtual' },
      { endpoint: aws, addressing: 'virtual' },
    ],
    [{ endpoint: `https://${BUCKET}.s3.eu-west-1.amazonaws.com` }, { endpoint: `${aws}/`, addressing: 'virtual' }],
    [
      { endpoint: `https://${BUCKET}.s3.eu-west-1.amazonaws.com`, addressing: 'path' },
      { endpoint: `${aws}/`, addressing: 'path' },
    ],
    [
      { endpoint: 'https://swift.example', region: 'RegionOne' },
      { endpoint: 'https://swift.example', region: 'RegionOne', addressing: 'path' },
    ],
    [
      { endpoint: 'https://storage.googleapis.com', region: 'auto' },
      { endpoint: 'https://storage.googleapis.com', region: 'auto', addressing: 'path' },
    ],
  ] as const)('%j is read with what its host implies', (storage, expected) => {
    const { endpoint: base_url, ...rest } = expected
    const common = { enabled: true, credentials: KEYS, bucket: BUCKET }
    expect(readStorage({ ...storage, bucket: BUCKET })).toEqual({ ...common, base_url, ...rest })
  })

  it.each(['minio', 's3'])('keeps the host of an endpoint that begins as its bucket does: %s', (bucket) => {
    for (const host of [`${bucket}.example.com:9000`, `${bucket}.eu-west-1.amazonaws.com`]) {
      const storage = readStorage({ endpoint: `https://${host}`, region: 'r', bucket })
      expect(storage).toMatchObject({ base_url: `https://${host}`, addressing: 'path' })
    }
  })

  it.each([
    [{ endpoint: aws, region: '' }, 'region` must not be blank'],
    [{ endpoint: aws, addressing: 'host' }, 'addressing` '],
    [{ endpoint: aws, addressing: 'virtual', bucket: 'shop.files' }, 'bucket` must be 3 to 63 of a-z'],
    [{ endpoint: aws, addressing: 'virtual', bucket: 'Shop' }, 'bucket` must be 3 to 63 of a-z'],
    [{ endpoint: aws, addressing: 'virtual', bucket: 'shop-' }, 'bucket` must be 3 to 63 of a-z'],
    [
      { endpoint: 'http://127.0.0.1:9000', region: 'r', addressing: 'virtual' },
      'addressing` must not be virtual where the host of the endpoint is an IP address',
    ],
  ])('%j is rejected', (storage, message) => {
    const integrations = { storage: { credentials: KEYS, bucket: BUCKET, ...storage } }
    const file = { company: { id: 1, name: 'Shop 1' }, integrations }
    expect(() => checkSeed(file, 'shop.json')).toThrow(`shop.json: \`integrations.storage.${message}`)
  })
})

describe('virtual-host style', () => {
  it('puts the bucket before the host of a listing, signed for that host', async () => {
    const s3 = await startS3()
    onTestFinished(s3.close)
    const lookUp = dns.lookup
    // Names below localhost are this machine (RFC 6761), which its resolver need not know.
    const spy = vi
      .spyOn(dns, 'lookup')
      .mockImplementation(((name: string, ...rest: [never, never]) =>
        lookUp(name.endsWith('.localhost') ? '127.0.0.1' : name, ...rest)) as typeof dns.lookup)
    onTestFinished(() => spy.mockRestore())
    const scope = `${s3.url.replace('127.0.0.1', 'localhost')}/t/virtual`
    await fetch(`${s3.url}/t/virtual/${BUCKET}`, { method: 'PUT', body: '{}' })
    const addresses = { resolver: undefined, allowsLoopback: true }
    const bucket = { endpoint: scope, name: BUCKET, region: S3_REGION, addressing: 'virtual' as const, addresses }
    const keys = { accessKeyId: S3_KEYS.access_key_id, secretAccessKey: S3_KEYS.secret_access_key }
    const list = (changes: object = {}) => s3Storage({ ...bucket, ...keys, ...changes }, Date.now()).list('orders/1/')
    await list()
    const { calls } = await look(`${s3.url}/t/virtual`)
    expect(calls.at(-1)?.headers.host).toMatch(new RegExp(`^${BUCKET}\\.localhost:\\d+$`))
    expect(calls.at(-1)?.path).toMatch(/^\/\?/)
    await expect(list({ secretAccessKey: 'wrong' })).rejects.toThrow('SignatureDoesNotMatch')
  })
})
