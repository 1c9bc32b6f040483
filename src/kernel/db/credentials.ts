import { Buffer } from 'node:buffer'
import { hash } from 'node:crypto'

/** The stored format is `v1.FINGERPRINT.DATA`: the key's fingerprint, and base64 of the IV and the ciphertext. */
const VERSION = 'v1'
const IV_BYTES = 12
/** 32 bytes in base64. */
export const KEY = /^[A-Za-z0-9+/]{43}=?$/

export const MALFORMED_KEY = 'CREDENTIALS_KEY must be 32 bytes in base64.'

/** The keys of `CREDENTIALS_KEY`, the newest first. */
export function splitKeys(keys: string): string[] {
  return keys.split(',').map((key) => key.trim())
}

/** Its message contains neither keys nor credentials. */
export class CredentialsError extends Error {
  override name = 'CredentialsError'
}

/**
 * Encrypts the credentials of one integration (AES-256-GCM, random IV); in another row they cannot be decrypted. During
 * a key rotation `keys` has the new key and the old one: the first encrypts, all of them decrypt.
 *
 * @throws CredentialsError when a key is not 32 bytes in base64
 */
export async function encryptCredentials(keys: string, companyId: number, kind: string, credentials: object) {
  const [key] = await importKeys(keys)
  const iv = crypto.getRandomValues(new Uint8Array(IV_BYTES))
  const text = Buffer.from(JSON.stringify(credentials))
  const sealed = await crypto.subtle.encrypt(aesGcm(iv, companyId, kind), key.secret, text)
  const data = Buffer.concat([iv, new Uint8Array(sealed)]).toString('base64')
  return `${VERSION}.${key.fingerprint}.${data}`
}

/** @throws CredentialsError when no key fits, or the stored value was changed or belongs to another row */
export async function decryptCredentials(keys: string, companyId: number, kind: string, stored: string) {
  const [version, fingerprint, data] = stored.split('.')
  if (version !== VERSION || !data) throw new CredentialsError('The stored credentials have no known format.')
  const key = (await importKeys(keys)).find((each) => each.fingerprint === fingerprint)
  if (!key) throw new CredentialsError('The stored credentials were encrypted with another CREDENTIALS_KEY.')
  try {
    // Unlike Buffer, atob refuses what is not base64.
    const bytes = Buffer.from(atob(data), 'latin1')
    const algorithm = aesGcm(bytes.subarray(0, IV_BYTES), companyId, kind)
    const text = await crypto.subtle.decrypt(algorithm, key.secret, bytes.subarray(IV_BYTES))
    return JSON.parse(new TextDecoder().decode(text)) as unknown
  } catch {
    throw new CredentialsError('The stored credentials cannot be decrypted.')
  }
}

/** How the values begin that are encrypted with the first key: once all are, older keys can be removed. */
export async function firstKeyPrefix(keys: string): Promise<string> {
  const [key] = await importKeys(keys)
  return `${VERSION}.${key.fingerprint}.`
}

async function importKeys(keys: string) {
  const [first = '', ...rest] = splitKeys(keys)
  return [await importKey(first), ...(await Promise.all(rest.map(importKey)))] as const
}

/** A key's fingerprint is the first 4 bytes of its SHA-256, hex: it names the key without disclosing it. */
async function importKey(base64: string) {
  if (!KEY.test(base64)) throw new CredentialsError(MALFORMED_KEY)
  const bytes = Buffer.from(base64, 'base64')
  const secret = await crypto.subtle.importKey('raw', bytes, 'AES-GCM', false, ['encrypt', 'decrypt'])
  return { secret, fingerprint: hash('sha256', bytes).slice(0, 8) }
}

/** Company and kind are authenticated with the credentials. */
function aesGcm(iv: Uint8Array<ArrayBuffer>, companyId: number, kind: string) {
  return { name: 'AES-GCM', iv, additionalData: Buffer.from(`${VERSION}:${companyId}:${kind}`) }
}
