import dns from 'node:dns'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { checkSeed } from '../../src/cli/seed-file.ts'
import { integrationsFile } from '../../src/operation/copies/seed/integrations-file.ts'
import { s3Storage } from '../../src/resources/files/s3.ts'
import { startS3 } from '../../src/simulators/s3.ts'
import { S3_KEYS, S3_REGION } from '../../src/simulators/s3-keys.ts'
import { look } from '../../src/simulators/steer.ts'

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
