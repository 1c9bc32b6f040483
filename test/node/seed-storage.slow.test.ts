import dns from 'node:dns'
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { checkSeed, checkStorage } from '../../src/cli/seed-file.ts'
import { integrationsFile } from '../../src/operation/copies/seed/integrations-file.ts'
import type { Simulator } from '../../src/simulators/kit.ts'
import { startS3 } from '../../src/simulators/s3.ts'
import { S3_KEYS, S3_REGION } from '../../src/simulators/s3-keys.ts'
import { look, spoil } from '../../src/simulators/steer.ts'
import { readAll, runCommand, servedState, writeSeed } from './cli-support.ts'

const BUCKET = 'shop-files'
const KEYS = { access_key_id: 'a', secret_access_key: 's' }

let s3: Simulator
beforeAll(async () => {
  s3 = await startS3()
  await fetch(`${s3.url}/t/check/${BUCKET}`, { method: 'PUT', body: '{}' })
})
afterAll(() => s3?.close())

/** The text of a seed file with this storage. */
function shopWith(storage: object): string {
  return JSON.stringify({
    company: { id: 1, name: 'Shop 1' },
    integrations: { storage: { credentials: KEYS, ...storage } },
  })
}

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

  it.each([
    [{ endpoint: aws, region: '' }, 'region` must not be blank'],
    [{ endpoint: aws, addressing: 'host' }, 'addressing` '],
    [{ endpoint: aws, addressing: 'virtual', bucket: 'shop.files' }, 'bucket` must be 3 to 63 of a-z'],
    [{ endpoint: aws, addressing: 'virtual', bucket: 'Shop' }, 'bucket` must be 3 to 63 of a-z'],
    [{ endpoint: aws, addressing: 'virtual', bucket: '-shop' }, 'bucket` must be 3 to 63 of a-z'],
    [
      { endpoint: 'http://127.0.0.1:9000', region: 'r', addressing: 'virtual' },
      'addressing` must not be virtual where the host of the endpoint is an IP address',
    ],
  ])('%j is rejected', (storage, message) => {
    const read = () => checkSeed(JSON.parse(shopWith({ bucket: BUCKET, ...storage })), 'shop.json')
    expect(read).toThrow(`shop.json: \`integrations.storage.${message}`)
  })

  it('is stored with its style, and the same file changes nothing', async () => {
    const state = await servedState()
    const file = await writeSeed(shopWith({ endpoint: aws, bucket: BUCKET }))
    expect((await runCommand('seed', file, '--state', state)).code).toBe(0)
    const [stored] = readAll(state, 1).integrations ?? []
    expect(stored?.base_url).toBe(aws)
    expect(JSON.parse(String(stored?.settings))).toEqual({ bucket: BUCKET, addressing: 'path' })
    await runCommand('seed', file, '--state', state)
    expect(readAll(state, 1).integrations).toEqual([stored])
  })
})

describe('npm run seed -- FILE --check', () => {
  const place = () => ({ endpoint: `${s3.url}/t/check`, bucket: BUCKET, region: S3_REGION, credentials: S3_KEYS })

  it('lists one key of the company and then loads the file', async () => {
    const state = await servedState()
    const file = await writeSeed(shopWith(place()))
    const { code, stdout, stderr } = await runCommand('seed', file, '--check', '--state', state)
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toBe(`storage: ${BUCKET} can be listed.\nLoaded company 1 (Shop 1): 1 integration.\n`)
    const { calls } = await look(`${s3.url}/t/check`)
    const query = new URLSearchParams(calls.at(-1)?.path.split('?')[1])
    expect(Object.fromEntries(query)).toMatchObject({ 'max-keys': '1', prefix: 'orders/1/' })
  })

  it.each([
    ['the bucket does not exist (NoSuchBucket)', { bucket: 'missing' }],
    ['the region is not the one of the storage (AuthorizationHeaderMalformed)', { region: 'auto' }],
    ['the access key id is unknown (InvalidAccessKeyId)', { credentials: { ...S3_KEYS, access_key_id: 'x' } }],
    [
      'the secret access key does not fit the access key id (SignatureDoesNotMatch)',
      { credentials: { ...S3_KEYS, secret_access_key: 'very-secret' } },
    ],
    ['it cannot be reached', { endpoint: 'http://127.0.0.1:9' }],
  ])('reports "%s" in one line and loads nothing', async (what, change) => {
    const state = await servedState()
    const before = readAll(state)
    const file = await writeSeed(shopWith({ ...place(), ...change }))
    const { code, stdout, stderr } = await runCommand('seed', file, '--check', '--state', state)
    expect({ code, stdout, stderr }).toEqual({ code: 1, stdout: '', stderr: `storage: ${what}.\n` })
    expect(readAll(state)).toEqual(before)
  })

  it.each([
    [{ status: 500 }, 'it refused the listing (HTTP 500)'],
    [
      { body: '<html>', headers: { 'content-type': 'text/html' } },
      'its response is not a list of objects: is the endpoint the one of its S3 API? (HTTP 200)',
    ],
    [
      { status: 301, body: '<Error><Code>PermanentRedirect</Code></Error>' },
      'the bucket is in another region: use the endpoint of that region (PermanentRedirect)',
    ],
    [{ status: 403, body: '<Error><Code>Strange</Code></Error>' }, 'it refused the listing (Strange)'],
  ])('names %j', async (fault, what) => {
    await spoil(`${s3.url}/t/check`, fault)
    await expect(checkStorage(readStorage(place()), 1, Date.now())).rejects.toThrow(`storage: ${what}.`)
  })

  it('reports that the file has no storage to list', async () => {
    const state = await servedState()
    const off = await writeSeed(shopWith({ ...place(), enabled: false }))
    for (const file of [off, await writeSeed({ company: { id: 1, name: 'Shop' } })]) {
      const { code, stdout } = await runCommand('seed', file, '--check', '--state', state)
      expect(code).toBe(0)
      expect(stdout).toMatch(/^storage: the file has none that is enabled\.\nLoaded company 1 /)
    }
  })
})

describe('virtual-host style', () => {
  it('puts the bucket before the host of a listing, signed for that host', async () => {
    const lookUp = dns.lookup
    // Names below localhost are this machine (RFC 6761), which its resolver need not know.
    const spy = vi
      .spyOn(dns, 'lookup')
      .mockImplementation(((name: string, ...rest: [never, never]) =>
        lookUp(name.endsWith('.localhost') ? '127.0.0.1' : name, ...rest)) as typeof dns.lookup)
    onTestFinished(() => spy.mockRestore())
    const scope = `${s3.url.replace('127.0.0.1', 'localhost')}/t/virtual`
    await fetch(`${s3.url}/t/virtual/${BUCKET}`, { method: 'PUT', body: '{}' })
    const storage = { endpoint: scope, bucket: BUCKET, region: S3_REGION, addressing: 'virtual', credentials: S3_KEYS }
    await checkStorage(readStorage(storage), 1, Date.now())
    const { calls } = await look(`${s3.url}/t/virtual`)
    expect(calls.at(-1)?.headers.host).toMatch(new RegExp(`^${BUCKET}\\.localhost:\\d+$`))
    expect(calls.at(-1)?.path).toMatch(/^\/\?/)
    await expect(
      checkStorage(readStorage({ ...storage, credentials: { ...S3_KEYS, secret_access_key: 'wrong' } }), 1, Date.now()),
    ).rejects.toThrow('SignatureDoesNotMatch')
  })
})
