import { describe, expect, it } from 'vitest'
import { addressOf, presignPut } from '../../src/files/s3.ts'
import made from './fixtures/presign-vectors.json'

const NOW = Date.parse(made.now)
const bucket = {
  endpoint: made.endpoint,
  name: made.bucket,
  region: made.region,
  addressing: 'path' as const,
  accessKeyId: made.accessKeyId,
  secretAccessKey: made.secretAccessKey,
}

/** The same address, whatever the order of its query. */
function sorted(address: string): string {
  const [path, query = ''] = address.split('?')
  return `${path}?${query.split('&').sort().join('&')}`
}

describe('presignPut', () => {
  it.each(made.vectors)('signs $key as the independent signer does', async ({ key, contentType, size, url }) => {
    expect(sorted(await presignPut(bucket, key, contentType, size, NOW))).toBe(sorted(url))
  })

  it('has at least 20 vectors', () => {
    expect(made.vectors.length).toBeGreaterThanOrEqual(20)
  })

  it('signs host, type and length, for 600 seconds', async () => {
    const { searchParams } = new URL(await presignPut(bucket, 'a', 'image/png', 1, NOW))
    expect(searchParams.get('X-Amz-SignedHeaders')).toBe('content-length;content-type;host')
    expect(searchParams.get('X-Amz-Expires')).toBe('600')
    expect(searchParams.get('X-Amz-Date')).toBe('20260302T093015Z')
  })

  it('takes an endpoint with a port, a path and a slash at its end', async () => {
    const local = { ...bucket, endpoint: 'http://127.0.0.1:9000/s3/' }
    expect(await presignPut(local, 'a b', 'image/png', 1, NOW)).toMatch(
      /^http:\/\/127\.0\.0\.1:9000\/s3\/shop-files\/a%20b\?/,
    )
  })

  it('puts the bucket before the host in virtual-host style, and signs that host', async () => {
    const virtual = { ...bucket, endpoint: 'https://s3.eu-west-1.amazonaws.com', addressing: 'virtual' as const }
    const url = await presignPut(virtual, 'a b/c', 'image/png', 1, NOW)
    expect(url).toMatch(/^https:\/\/shop-files\.s3\.eu-west-1\.amazonaws\.com\/a%20b\/c\?/)
    expect(addressOf(virtual)).toBe('https://shop-files.s3.eu-west-1.amazonaws.com/')
    const asPath = await presignPut({ ...virtual, addressing: 'path' }, 'a b/c', 'image/png', 1, NOW)
    const signatureOf = (address: string) => new URL(address).searchParams.get('X-Amz-Signature')
    expect(signatureOf(url)).not.toBe(signatureOf(asPath))
  })
})
