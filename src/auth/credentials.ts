import { hash } from 'node:crypto'
import type { integrations } from '../db/schema.ts'

export type IntegrationKind = (typeof integrations.$inferSelect)['kind']

/** The stored format is `v1.FINGERPRINT.DATA`: the key's fingerprint, and base64 of the IV and the ciphertext. */
const VERSION = 'v1'
const IV_BYTES = 12

/** 32 bytes in base64. */
const KEY = /^[A-Za-z0-9+/]{43}=?$/

/** Its message contains neither keys nor credentials. */
export class CredentialsError extends Error {
  override name = 'CredentialsError'
}

/**
 * Encrypts the credentials of one integration of one company (AES-256-GCM, random IV). The company and the kind are
 * authenticated with it: in another row it cannot be decrypted.
 *
 * @param keys the deployment's `CREDENTIALS_KEY`: 32 bytes in base64. During a key rotation it is the new key and the
 *   old one, separated by a comma: the first encrypts, all of them decrypt.
 * @throws CredentialsError when a key is not 32 bytes in base64
 */
export async function encryptCredentials(
  keys: string,
  companyId: number,
  kind: IntegrationKind,
  credentials: object,
): Promise<string> {
  const [key] = await importKeys(keys)
  const iv = crypto.getRandomValues(new Uint8Array(IV_BYTES))
  const text = new TextEncoder().encode(JSON.stringify(credentials))
  const algorithm = { name: 'AES-GCM', iv, additionalData: bindingOf(companyId, kind) }
  const sealed = await crypto.subtle.encrypt(algorithm, key.secret, text)
  return `${VERSION}.${key.fingerprint}.${toBase64(iv)}${toBase64(new Uint8Array(sealed))}`
}

/**
 * Decrypts what {@link encryptCredentials} returned for this company and kind.
 *
 * @throws CredentialsError when no key fits, or the value was changed or belongs to another row
 */
export async function decryptCredentials(
  keys: string,
  companyId: number,
  kind: IntegrationKind,
  stored: string,
): Promise<unknown> {
  const [version, fingerprint, data] = stored.split('.')
  if (version !== VERSION || data === undefined)
    throw new CredentialsError('The stored credentials have no known format.')
  const key = (await importKeys(keys)).find((each) => each.fingerprint === fingerprint)
  if (!key) throw new CredentialsError('The stored credentials were encrypted with another CREDENTIALS_KEY.')
  try {
    const bytes = fromBase64(data)
    const algorithm = { name: 'AES-GCM', iv: bytes.subarray(0, IV_BYTES), additionalData: bindingOf(companyId, kind) }
    const text = await crypto.subtle.decrypt(algorithm, key.secret, bytes.subarray(IV_BYTES))
    return JSON.parse(new TextDecoder().decode(text))
  } catch {
    throw new CredentialsError('The stored credentials cannot be decrypted.')
  }
}

/** Whether a stored value is encrypted with the first key, so that older keys can be removed. */
export async function usesFirstKey(keys: string, stored: string): Promise<boolean> {
  const [key] = await importKeys(keys)
  return stored.startsWith(`${VERSION}.${key.fingerprint}.`)
}

interface Key {
  secret: CryptoKey
  /** The first 4 bytes of the key's SHA-256, hex: they name the key without disclosing it. */
  fingerprint: string
}

async function importKeys(keys: string): Promise<[Key, ...Key[]]> {
  const [first, ...rest] = keys.split(',')
  return [await importKey(first ?? ''), ...(await Promise.all(rest.map(importKey)))]
}

async function importKey(text: string): Promise<Key> {
  const base64 = text.trim()
  if (!KEY.test(base64)) throw new CredentialsError('CREDENTIALS_KEY must be 32 bytes in base64.')
  const bytes = fromBase64(base64)
  const secret = await crypto.subtle.importKey('raw', bytes, 'AES-GCM', false, ['encrypt', 'decrypt'])
  return { secret, fingerprint: hash('sha256', bytes).slice(0, 8) }
}

/** What is authenticated with the credentials, so that they cannot be decrypted for another company or kind. */
function bindingOf(companyId: number, kind: IntegrationKind): Uint8Array<ArrayBuffer> {
  return new Uint8Array(new TextEncoder().encode(`${VERSION}:${companyId}:${kind}`))
}

function toBase64(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes))
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  return new Uint8Array(Array.from(atob(text), (character) => character.charCodeAt(0)))
}
