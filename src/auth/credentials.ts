import type { integrations } from '../db/schema.ts'

export type IntegrationKind = (typeof integrations.$inferSelect)['kind']

/** The stored form is `v1.FINGERPRINT.DATA`: which key it needs, and base64 of the IV followed by the ciphertext. */
const VERSION = 'v1'
const KEY_BYTES = 32
const IV_BYTES = 12
const FINGERPRINT_BYTES = 4

/** Its message holds neither keys nor credentials. */
export class CredentialsError extends Error {
  override name = 'CredentialsError'
}

/**
 * Encrypts the credentials of one integration of one company (AES-256-GCM, random IV). The company and the kind are
 * authenticated with it: moved to another row it cannot be decrypted.
 *
 * @param keys the deployment's `CREDENTIALS_KEY`: 32 bytes in base64. While a key is being replaced it holds the new
 *   one and the old one, separated by a comma: the first encrypts, every one decrypts.
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
 * What {@link encryptCredentials} was given for this company and kind.
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
    throw new CredentialsError('The stored credentials have no known form.')
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

/** Whether a stored value needs nothing but the first key, so that an older key can be dropped. */
export async function usesFirstKey(keys: string, stored: string): Promise<boolean> {
  const [key] = await importKeys(keys)
  return stored.startsWith(`${VERSION}.${key.fingerprint}.`)
}

interface Key {
  secret: CryptoKey
  /** The first bytes of the key's SHA-256, hex: names the key and tells nothing about it. */
  fingerprint: string
}

async function importKeys(keys: string): Promise<[Key, ...Key[]]> {
  const [first, ...rest] = keys.split(',')
  return [await importKey(first ?? ''), ...(await Promise.all(rest.map(importKey)))]
}

async function importKey(base64: string): Promise<Key> {
  const bytes = parseKey(base64.trim())
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes))
  return {
    secret: await crypto.subtle.importKey('raw', bytes, 'AES-GCM', false, ['encrypt', 'decrypt']),
    fingerprint: Array.from(digest.subarray(0, FINGERPRINT_BYTES), (byte) => byte.toString(16).padStart(2, '0')).join(
      '',
    ),
  }
}

function parseKey(base64: string): Uint8Array<ArrayBuffer> {
  try {
    const bytes = fromBase64(base64)
    if (bytes.length === KEY_BYTES) return bytes
  } catch {
    // Not base64: told below, without its text.
  }
  throw new CredentialsError('CREDENTIALS_KEY must be 32 bytes in base64.')
}

function bindingOf(companyId: number, kind: IntegrationKind): Uint8Array<ArrayBuffer> {
  return new Uint8Array(new TextEncoder().encode(`${VERSION}:${companyId}:${kind}`))
}

function toBase64(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes))
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  return new Uint8Array(Array.from(atob(text), (character) => character.charCodeAt(0)))
}
