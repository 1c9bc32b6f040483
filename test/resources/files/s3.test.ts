import { describe, expect, it } from 'vitest'
import { addressOf, type Bucket, readObjectList, s3Storage } from '../../../src/resources/files/s3.ts'
import { LOCAL } from '../../support/addresses.ts'
import made from './fixtures/presign-vectors.json'

const NOW = Date.parse(made.now)
const bucket = {
  endpoint: made.endpoint,
  name: made.bucket,
  region: made.region,
  addressing: 'path' as const,
  accessKeyId: made.accessKeyId,
  secretAccessKey: made.secretAccessKey,
  addresses: LOCAL,
}

const presignPut = (of: Bucket, key: string, contentType: string, sizeBytes: number) =>
  s3Storage(of, NOW).presignPut(key, contentType, sizeBytes)

/** A URL with its query in a fixed order. */
function sorted(address: string): string {
  const [path, query = ''] = address.split('?')
  return `${path}?${query.split('&').sort().join('&')}`
}

describe('presignPut', () => {
  it.each(made.vectors)('signs $key as the independent signer does', async ({ key, contentType, size, url }) => {
    expect(sorted(await presignPut(bucket, key, contentType, size))).toBe(sorted(url))
  })

  it('accepts an endpoint with a port, a path and a trailing slash', async () => {
    const local = { ...bucket, endpoint: 'http://127.0.0.1:9000/s3/' }
    expect(await presignPut(local, 'a b', 'image/png', 1)).toMatch(
      /^http:\/\/127\.0\.0\.1:9000\/s3\/shop-files\/a%20b\?/,
    )
  })

  it('adds the bucket to the host in virtual-host style and signs that host', async () => {
    const virtual = { ...bucket, endpoint: 'https://s3.eu-west-1.amazonaws.com', addressing: 'virtual' as const }
    const url = await presignPut(virtual, 'a b/c', 'image/png', 1)
    expect(url).toMatch(/^https:\/\/shop-files\.s3\.eu-west-1\.amazonaws\.com\/a%20b\/c\?/)
    expect(addressOf(virtual)).toBe('https://shop-files.s3.eu-west-1.amazonaws.com/')
    const asPath = await presignPut({ ...virtual, addressing: 'path' }, 'a b/c', 'image/png', 1)
    const signatureOf = (address: string) => new URL(address).searchParams.get('X-Amz-Signature')
    expect(signatureOf(url)).not.toBe(signatureOf(asPath))
  })
})

const object =
  '<Contents><Key>a%2Bb+c%20d</Key><Size>3</Size><LastModified>2026-03-02T09:30:00.000Z</LastModified></Contents>'
const list = (inside: string) => `<?xml version="1.0"?><ListBucketResult xmlns="urn:x">${inside}</ListBucketResult>`
const end = '<IsTruncated>false</IsTruncated>'
const url = '<EncodingType>url</EncodingType>'

const more = '<IsTruncated>true</IsTruncated><NextContinuationToken>a&amp;b=</NextContinuationToken>'
const unknown = '<CommonPrefixes><Prefix>p</Prefix><Size>9</Size></CommonPrefixes>'
const owned = object.replace('<Contents>', '<Contents><Owner><Key>wrong</Key></Owner>')

describe('readObjectList', () => {
  it.each<[string, string, string[], string | null]>([
    ['keys that the storage has encoded', `${end}${url}${object}`, ['a+b c d'], null],
    ['keys that the storage has not encoded', `${end}${object}`, ['a%2Bb+c%20d'], null],
    ['an empty list', end, [], null],
    ['the continuation token of the next page', more, [], 'a&b='],
    ['objects among unknown elements with known names inside', `${end}${unknown}${owned}`, ['a%2Bb+c%20d'], null],
  ])('reads %s', (_, inside, keys, cursor) => {
    const file = { sizeBytes: 3, changedAt: Date.parse('2026-03-02T09:30:00.000Z') }
    expect(readObjectList(list(inside))).toEqual({ files: keys.map((key) => ({ key, ...file })), cursor })
  })

  it.each([
    ['nothing', ''],
    ['text', 'Not found'],
    ['the HTML page of a proxy', '<html><body>Sorry</body></html>'],
    ['an error', '<Error><Code>SlowDown</Code></Error>'],
    ['a truncated response', list(`${end}${object}`).slice(0, -30)],
    ['a document type', `<!DOCTYPE x [<!ENTITY a "b">]>${list(end)}`],
    ['no IsTruncated', list(object)],
    ['more objects without a continuation token', list('<IsTruncated>true</IsTruncated>')],
    ['no key', list(`${end}${object.replace(/<Key>.*<\/Key>/, '')}`)],
    ['no size', list(`${end}${object.replace('<Size>3', '<Size>')}`)],
    ['a size that is no number', list(`${end}${object.replace('<Size>3', '<Size>three')}`)],
    ['no time', list(`${end}${object.replace('2026', 'then')}`)],
    ['a year of five digits', list(`${end}${object.replace('2026', '+012026')}`)],
    ['a key of 1,026 bytes', list(`${end}${object.replace('a%2Bb+c%20d', '字'.repeat(342))}`)],
    ['a key of 1,025 characters', list(`${end}${object.replace('a%2Bb+c%20d', 'k'.repeat(1_025))}`)],
    ['a key that cannot be decoded', list(`${end}${url}${object.replace('%2B', '%ZZ')}`)],
    ['elements that are nested too deep', `${'<a>'.repeat(50)}${'</a>'.repeat(50)}`],
  ])('refuses %s', (_, xml) => {
    expect(() => readObjectList(xml)).toThrow()
  })
})

it.each([
  ['s3.eu-west-1.amazonaws.com', 'eu-west-1'],
  ['s3.dualstack.ap-southeast-2.amazonaws.com', 'ap-southeast-2'],
  ['s3.cn-north-1.amazonaws.com.cn', 'cn-north-1'],
  ['s3.amazonaws.com', 'us-east-1'],
  ['abc.r2.cloudflarestorage.com', 'auto'],
  ['abc.eu.r2.cloudflarestorage.com', 'auto'],
  ['storage.example', 'us-east-1'],
])('without a region, requests to %s are signed for %s', async (host, region) => {
  const storage = s3Storage({ ...bucket, endpoint: `https://${host}`, region: '' }, 0)
  const { searchParams } = new URL(await storage.presignPut('a', 'image/png', 1))
  expect(searchParams.get('X-Amz-Credential')?.split('/')[2]).toBe(region)
})
