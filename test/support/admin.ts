import { env } from 'cloudflare:workers'
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT } from 'jose'
import { expect, inject } from 'vitest'
import { app } from '../../src/app.ts'
import type { Env } from '../../src/env.ts'
import type { Administrator } from '../../src/kernel/db/audit.ts'
import { decryptCredentials } from '../../src/kernel/db/credentials.ts'
import { ERRORS } from '../../src/kernel/http/errors.ts'
import { spoil } from '../../src/simulators/steer.ts'
import { type ApiResponse, request, send, sql } from './app.ts'
import { patternOf } from './conformance.ts'
import { adminContracts } from './endpoints.ts'

const ORIGIN = 'https://api.test'
/** The secret of the deployment in tests: that of `.dev.vars`. */
export const ADMIN_TOKEN = String(env.ADMIN_TOKEN)
const AUDIENCE = 'f1c0ffee'
const KEY_ID = 'key-1'

/** The operator, as who a company's object does what it is called for. */
export const operatorOf = (companyId: number): Administrator => ({
  companyId,
  caller: { actor: 'operator' },
  address: '127.0.0.1',
  requestId: crypto.randomUUID(),
  now: Date.now(),
})

/** The last use is written after the response: the administration calls the objects of tokens that were used. */
export const expectUsed = ({ id }: { id: number }) =>
  expect.poll(() => sql('SELECT 1 FROM api_tokens WHERE company_id = ? AND last_used_at > 0', id)).toHaveLength(1)

/** Who may sign people in: a key of its own, published by a local server as Cloudflare Access publishes its keys. */
export async function startAccess() {
  const issuer = `${inject('receiverUrl')}/t/${crypto.randomUUID()}`
  const { publicKey, privateKey } = await generateKeyPair('RS256', { extractable: true })
  const jwk = { ...(await exportJWK(publicKey)), kid: KEY_ID, alg: 'RS256', use: 'sig' }
  const certs = { match: 'cdn-cgi/access/certs', times: -1, status: 200, body: JSON.stringify({ keys: [jwk] }) }
  await spoil(issuer, certs)
  const bindings: Env = { ...env, ACCESS_ISSUER: issuer, ACCESS_AUDIENCE: AUDIENCE, OPERATORS: 'operator@example.com' }

  const sign = (claims: JWTPayload = {}, header: Record<string, unknown> = {}, key = privateKey) =>
    new SignJWT({ email: 'someone@example.com', ...claims })
      .setProtectedHeader({ alg: 'RS256', kid: KEY_ID, ...header })
      .setIssuer(String(claims.iss ?? issuer))
      .setAudience(String(claims.aud ?? AUDIENCE))
      .setIssuedAt(claims.iat)
      .setExpirationTime(claims.exp ?? '5m')
      .sign(key)

  /** Sends a request as the person with this email, from the settings page. */
  const callAs = async (email: string, method: string, path: string, body?: unknown, headers = {}) =>
    adminSend(
      adminRequest(method, path, body, {
        'cf-access-jwt-assertion': await sign({ email }),
        origin: ORIGIN,
        ...headers,
      }),
      bindings,
    )
  return { issuer, bindings, sign, callAs }
}

/** A request to the administration API. */
export function adminRequest(method: string, path: string, body?: unknown, headers: Record<string, string> = {}) {
  return new Request(`${ORIGIN}/admin/v1${path}`, request(null, method, path, body, headers))
}

/** Sends a request with the secret of the deployment. */
export function adminCall(method: string, path: string, body?: unknown, headers: Record<string, string> = {}) {
  return adminSend(adminRequest(method, path, body, { authorization: `Bearer ${ADMIN_TOKEN}`, ...headers }))
}

/** {@link adminCall} with other bindings. */
export function adminCallWith(bindings: object, method: string, path: string, body?: unknown) {
  const sent = adminRequest(method, path, body, { authorization: `Bearer ${ADMIN_TOKEN}` })
  return adminSend(sent, Object.assign({}, env, bindings))
}

/** Fast tests together send more than one caller may. */
export const unlimited: Env = { ...env, ADMIN_REQUESTS: { limit: async () => ({ success: true }) } }

/** Sends a request; a response of 200 is checked against its contract, any other against the shape of errors. */
export async function adminSend(sent: Request, bindings: Env = unlimited): Promise<ApiResponse> {
  const { method } = sent
  const path = new URL(sent.url).pathname.replace('/admin/v1', '')
  const response = await send(sent, { env: bindings, app })
  const contract = adminContracts.find((each) => each.method === method && patternOf(each.path).test(path))
  expect(response.headers.get('access-control-allow-origin')).toBe(null)
  if (response.status !== 200) {
    expect(Object.values(ERRORS)).toContainEqual(
      expect.objectContaining({ status: response.status, code: response.body.error.code }),
    )
  } else if (contract && response.headers.get('content-type')?.startsWith('application/json')) {
    const { error } = contract.response.safeParse(response.body)
    expect(error?.issues ?? []).toEqual([])
  }
  return response
}

/** The credentials of an integration, as they are stored. */
export async function credentialsOf(companyId: number, kind: 'supplier_b'): Promise<unknown> {
  const stored = 'SELECT credentials FROM integrations WHERE company_id = ? AND kind = ?'
  const [row] = await sql<{ credentials: string }>(stored, companyId, kind)
  return decryptCredentials(env.CREDENTIALS_KEY, companyId, kind, row?.credentials ?? '')
}

export async function addMember(companyId: number, email: string, role: 'developer' | 'owner'): Promise<void> {
  await sql('INSERT INTO members (company_id, email, role, created_at) VALUES (?, ?, ?, 0)', companyId, email, role)
}
