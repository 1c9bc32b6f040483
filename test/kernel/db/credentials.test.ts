import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { readCursor, writeCursor } from '../../../src/kernel/api/paging.ts'
import {
  CredentialsError,
  decryptCredentials,
  encryptCredentials,
  firstKeyPrefix,
} from '../../../src/kernel/db/credentials.ts'

const key = () => btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(32))))
const KEY = key()

describe('encrypted credentials', () => {
  it('are decrypted to any values that were encrypted, also long ones', async () => {
    const secrets = fc.dictionary(fc.string(), fc.oneof(fc.string({ unit: 'grapheme' }), fc.integer()))
    const decrypted = fc.asyncProperty(secrets, async (secret) => {
      const stored = await encryptCredentials(KEY, 7, 'supplier_a', secret)
      expect(await decryptCredentials(KEY, 7, 'supplier_a', stored)).toEqual(JSON.parse(JSON.stringify(secret)))
    })
    await fc.assert(decrypted, { examples: [[{ token: 'x'.repeat(20_000) }]] })
  })

  it('differ each time and are not readable', async () => {
    const secret = { api_key: 'very-secret-value' }
    const stored = await encryptCredentials(KEY, 7, 'supplier_b', secret)
    expect(stored).not.toBe(await encryptCredentials(KEY, 7, 'supplier_b', secret))
    expect(stored).toMatch(/^v1\.[0-9a-f]{8}\.[A-Za-z0-9+/=]+$/)
    expect(atob(stored.split('.')[2] ?? '')).not.toContain('secret')
  })

  it.each([
    ['another company', KEY, 8, 'supplier_b'],
    ['another kind', KEY, 7, 'storage'],
    ['another key', key(), 7, 'supplier_b'],
  ] as const)('cannot be decrypted for %s', async (_, keys, companyId, kind) => {
    const stored = await encryptCredentials(KEY, 7, 'supplier_b', { api_key: 'k' })
    await expect(decryptCredentials(keys, companyId, kind, stored)).rejects.toThrow(CredentialsError)
  })

  it('cannot be decrypted after a byte was changed', async () => {
    const stored = await encryptCredentials(KEY, 7, 'supplier_b', { api_key: 'k' })
    const changed = stored.slice(0, -6) + (stored.at(-6) === 'A' ? 'B' : 'A') + stored.slice(-5)
    await expect(decryptCredentials(KEY, 7, 'supplier_b', changed)).rejects.toThrow('cannot be decrypted')
  })

  it.each(['', 'v1', 'v2.aaaaaaaa.AAAA', 'plain text', 'v1.zz.%%'])(
    'of no known format are refused: %j',
    async (text) => {
      await expect(decryptCredentials(KEY, 7, 'supplier_b', text)).rejects.toThrow(CredentialsError)
    },
  )

  it.each(['', 'short', btoa('x'.repeat(31)), '%'.repeat(44)])('require a key of 32 bytes, not %j', async (keys) => {
    const attempt = encryptCredentials(keys, 1, 'storage', {})
    await expect(attempt).rejects.toThrow('CREDENTIALS_KEY must be 32 bytes in base64.')
  })

  it('are readable in each step of a rotation by an isolate that has the keys of the step before', async () => {
    const next = key()
    const steps = [KEY, `${KEY},${next}`, `${next},${KEY}`]
    for (const [index, keys] of steps.entries()) {
      const stored = await encryptCredentials(keys, 7, 'storage', { a: 1 })
      expect(await decryptCredentials(steps[index - 1] ?? KEY, 7, 'storage', stored)).toEqual({ a: 1 })
    }
  })

  it('survive a key rotation', async () => {
    const stored = await encryptCredentials(KEY, 7, 'storage', { a: 1 })
    const both = `${key()}, ${KEY}`
    expect(await decryptCredentials(both, 7, 'storage', stored)).toEqual({ a: 1 })
    expect(stored.startsWith(await firstKeyPrefix(both))).toBe(false)
    const renewed = await encryptCredentials(both, 7, 'storage', { a: 1 })
    expect(renewed.startsWith(await firstKeyPrefix(both))).toBe(true)
    expect(await decryptCredentials(both.split(',')[0] ?? '', 7, 'storage', renewed)).toEqual({ a: 1 })
  })
})

it('a cursor survives a key rotation whose keys have a space between them', () => {
  const scope = (credentialsKey: string) => ({ companyId: 7, credentialsKey, query: ['clients'], now: 1_000_000 })
  const next = key()
  expect(readCursor(scope(`${next}, ${KEY}`), writeCursor(scope(KEY), [5]))).toEqual([5])
  // The rotation ends: the new key stays alone.
  expect(readCursor(scope(next), writeCursor(scope(` ${next} ,${KEY}`), [6]))).toEqual([6])
})
