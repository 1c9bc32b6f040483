import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { get } from 'node:http'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readDevVars } from '../../src/cli/local-runtime.ts'
import { s3Storage } from '../../src/resources/files/s3.ts'
import made from '../resources/files/fixtures/presign-vectors.json' with { type: 'json' }
import { LOCAL } from '../support/addresses.ts'
import { forgetPeakMemory, listRuntimes, peakMemoryBytes } from '../tools/harness/processes.ts'
import { outputOf } from './cli-support.ts'
import { ask } from './dev-server.ts'
import { type RunningDev, startDev } from './servers.ts'

const env = readDevVars()
const EXTENSION_ORIGIN = 'chrome-extension://abcdefghijklmnopabcdefghijklmnop'
const MAX_FILE_BYTES = 157_286_400
const MIB = 1_048_576

let dev: RunningDev
let order: number

beforeAll(async () => {
  dev = await startDev()
  const { data } = await api<{ data: { id: number }[] }>('/orders?per_page=1')
  order = data[0]?.id ?? 0
})

afterAll(() => dev?.stop())

/** Sends a request that must succeed; its shape is checked elsewhere. */
async function api<T>(path: string, body?: object, { url = dev.url, token = dev.token } = {}): Promise<T> {
  const response = await ask({ url, token }, body ? 'POST' : 'GET', path, body)
  expect(response.status).toBe(200)
  return response.body
}

interface Presigned {
  uploadUrl: string
  key: string
  contentType: string
}

interface Listed {
  path: string
  length: number
}

function presign(file: object, to: { url?: string; token?: string } = {}, orderId = order): Promise<Presigned> {
  return api(`/orders/${orderId}/files/presign`, { legacyThreadId: 't', ...file }, to)
}

async function list(thread: string, to: { token?: string } = {}, orderId = order): Promise<Listed[]> {
  const path = `/orders/${orderId}/files?legacyThreadId=${encodeURIComponent(thread)}`
  return (await api<{ files: Listed[] }>(path, undefined, to)).files
}

const put = (url: string, body: NonNullable<RequestInit['body']>, contentType: string, headers = {}) =>
  fetch(url, { method: 'PUT', body, headers: { 'content-type': contentType, ...headers } })

function expectRefused(statuses: Record<string, number>): void {
  expect(Object.entries(statuses).filter(([, status]) => status !== 403)).toEqual([])
}

async function statusOf(sent: Promise<Response>): Promise<number> {
  const response = await sent
  await response.text()
  return response.status
}

/** Sends a request to a presigned address of which something was changed. */
const statusWith = (address: string, send: (url: string) => Promise<Response>, change: (url: URL) => void) => {
  const url = new URL(address)
  change(url)
  return statusOf(send(url.href))
}

describe('the presigned addresses of', () => {
  it.each(made.vectors)('$key', async ({ fileName, legacyThreadId, contentType }) => {
    const text = `The bytes of ${fileName}`
    const bytes = Buffer.from(text)
    const { uploadUrl, key } = await presign({ fileName, legacyThreadId, contentType, size: bytes.length })

    const upload = (body: Buffer, type = contentType, headers = {}) => statusOf(put(uploadUrl, body, type, headers))
    const uploadWith = (change: (url: URL) => void) =>
      statusWith(uploadUrl, (url) => put(url, bytes, contentType), change)
    const source = `/${env.STORAGE_BUCKET}/orders/2/1/files/x`
    expectRefused({
      anotherType: await upload(bytes, 'application/x-other'),
      copied: await upload(bytes, contentType, { 'x-amz-copy-source': source }),
      longer: await upload(Buffer.concat([bytes, Buffer.from('!')])),
      shorter: await upload(bytes.subarray(1)),
      anotherKey: await uploadWith((url) => Object.assign(url, { pathname: `${url.pathname}2` })),
      anotherOrder: await uploadWith((url) =>
        Object.assign(url, { pathname: url.pathname.replace(`/${order}/`, `/${order}0/`) }),
      ),
      longerValid: await uploadWith((url) => url.searchParams.set('X-Amz-Expires', '86400')),
      fewerSignedHeaders: await uploadWith((url) => url.searchParams.set('X-Amz-SignedHeaders', 'host')),
      anotherSignature: await uploadWith((url) => url.searchParams.set('X-Amz-Signature', '0'.repeat(64))),
    })
    expect((await list(legacyThreadId)).map(({ path }) => path)).not.toContain(key)

    const right = await put(uploadUrl, bytes, contentType)
    expect(right.status).toBe(200)
    expect(right.headers.get('etag')).toBe(`"${createHash('md5').update(bytes).digest('hex')}"`)
    expect(await list(legacyThreadId)).toContainEqual(expect.objectContaining({ path: key, length: bytes.length }))

    const path = `/orders/${order}/files/download?path=${encodeURIComponent(key)}`
    const { downloadUrl, objectName } = await api<{ downloadUrl: string; objectName: string }>(path)
    const file = await fetch(downloadUrl, { headers: { origin: EXTENSION_ORIGIN } })
    expect([file.status, await file.text()]).toEqual([200, text])
    expect(file.headers.get('content-type')).toBe(contentType)
    expect(file.headers.get('access-control-allow-origin')).toBe('*')
    const disposition = file.headers.get('content-disposition') ?? ''
    const [, encoded] = /; filename\*=UTF-8''(.*)$/.exec(disposition) ?? []
    const [, plain] = /^attachment; filename="([^"\\]*)"/.exec(disposition) ?? []
    expect(encoded === undefined ? plain : decodeURIComponent(encoded)).toBe(objectName)

    const downloadWith = (change: (url: URL) => void) => statusWith(downloadUrl, (url) => fetch(url), change)
    expectRefused({
      anotherKey: await downloadWith((url) => Object.assign(url, { pathname: `${url.pathname}2` })),
      longerValid: await downloadWith((url) => url.searchParams.set('X-Amz-Expires', '86400')),
      anotherName: await downloadWith((url) => url.searchParams.set('response-content-disposition', 'inline')),
      anotherSignature: await downloadWith((url) => url.searchParams.set('X-Amz-Signature', '0'.repeat(64))),
      asUpload: await statusOf(put(downloadUrl, bytes, contentType)),
    })

    const deleted = await ask(dev, 'DELETE', `/orders/${order}/files?path=${encodeURIComponent(key)}`)
    expect(deleted.status).toBe(200)
    expect(await statusOf(fetch(downloadUrl))).toBe(404)
  })
})

describe('uploads in development', () => {
  it('end after 600 seconds', async () => {
    const bucket = {
      endpoint: `${dev.url}/cdn-cgi/local/r2/s3`,
      name: env.STORAGE_BUCKET ?? '',
      region: 'auto',
      addressing: 'path' as const,
      accessKeyId: env.STORAGE_ACCESS_KEY_ID ?? '',
      secretAccessKey: env.STORAGE_SECRET_ACCESS_KEY ?? '',
      addresses: LOCAL,
    }
    const signedAgo = async (seconds: number) => {
      const url = await s3Storage(bucket, Date.now() - seconds * 1_000).presignPut(
        'orders/1/1/email/t/old',
        'text/plain',
        1,
      )
      return statusOf(put(url.replace('/cdn-cgi/local/r2/s3/', '/uploads/'), 'x', 'text/plain'))
    }
    expect(await signedAgo(300)).toBe(200)
    expect(await signedAgo(601)).toBe(403)
  })

  it('overwrite the file of the same name', async () => {
    for (const text of ['first', 'second, longer']) {
      const file = { fileName: 'again.txt', contentType: 'text/plain', size: text.length, legacyThreadId: 'again' }
      const { uploadUrl } = await presign(file)
      expect(await statusOf(put(uploadUrl, text, 'text/plain'))).toBe(200)
    }
    expect(await list('again')).toMatchObject([{ length: 14 }])
  })

  it('come back without a coding, also to a client that names none', async () => {
    const name = { fileName: 'plain.txt', legacyThreadId: 'plain' }
    const { uploadUrl, key } = await presign({ ...name, contentType: 'text/plain', size: 5 })
    expect(await statusOf(put(uploadUrl, 'HELLO', 'text/plain'))).toBe(200)
    const path = `/orders/${order}/files/download?path=${encodeURIComponent(key)}`
    const { downloadUrl } = await api<{ downloadUrl: string }>(path)
    // Unlike `fetch`, this sends no Accept-Encoding.
    const [response] = await once(get(downloadUrl), 'response')
    expect(Buffer.concat(await Array.fromAsync(response)).toString()).toBe('HELLO')
  })

  it('may be empty', async () => {
    const { uploadUrl } = await presign({ fileName: 'empty', size: 0, legacyThreadId: 'empty' })
    expect(await statusOf(put(uploadUrl, '', 'application/octet-stream'))).toBe(200)
    expect(await list('empty')).toMatchObject([{ length: 0 }])
  })

  it('refuse a body without a length', async () => {
    const { uploadUrl } = await presign({ fileName: 'chunked', size: 1 })
    const body = new Blob(['x']).stream()
    const init = {
      method: 'PUT',
      body,
      duplex: 'half' as const,
      headers: { 'content-type': 'application/octet-stream' },
    }
    expect(await statusOf(fetch(uploadUrl, init))).toBe(403)
  })

  it.each(['127.0.0.1', 'localhost'])('go to the host that the caller used: %s', async (host) => {
    const url = dev.url.replace('127.0.0.1', host)
    const { uploadUrl } = await presign({ fileName: host, size: 1 }, { url })
    expect(new URL(uploadUrl).origin).toBe(url)
    expect(await statusOf(put(uploadUrl, 'x', 'application/octet-stream'))).toBe(200)
  })

  it('are open to every origin', async () => {
    const { uploadUrl } = await presign({ fileName: 'from an extension', size: 1 })
    const preflight = await fetch(uploadUrl, {
      method: 'OPTIONS',
      headers: {
        origin: EXTENSION_ORIGIN,
        'access-control-request-method': 'PUT',
        'access-control-request-headers': 'content-type',
      },
    })
    expect(preflight.status).toBe(204)
    expect(preflight.headers.get('access-control-allow-origin')).toBe('*')
    expect(preflight.headers.get('access-control-allow-methods')).toContain('PUT')
    expect(preflight.headers.get('access-control-allow-headers')).toBe('content-type')
    const stored = await put(uploadUrl, 'x', 'application/octet-stream', { origin: EXTENSION_ORIGIN })
    expect(stored.status).toBe(200)
    expect(stored.headers.get('access-control-allow-origin')).toBe('*')
    const refused = await put(uploadUrl, 'xx', 'application/octet-stream', { origin: EXTENSION_ORIGIN })
    expect(refused.status).toBe(403)
    expect(refused.headers.get('access-control-allow-origin')).toBe('*')
  })

  it('and downloads are all that is relayed', async () => {
    const { uploadUrl } = await presign({ fileName: 'x', size: 1 })
    expect(await statusOf(fetch(uploadUrl))).toBe(403)
    expect(await statusOf(fetch(uploadUrl, { method: 'DELETE' }))).toBe(404)
  })

  it('may have 150 MiB, which are never held in memory', async () => {
    // Only Linux has the memory of other processes in /proc.
    const isReadable = process.platform === 'linux'
    const runtimes = isReadable ? listRuntimes(dev.pid) : []
    const send = async () => {
      const file = { fileName: 'large.bin', size: MAX_FILE_BYTES, legacyThreadId: 'large' }
      const { uploadUrl } = await presign(file)
      runtimes.forEach(forgetPeakMemory)
      const start = Date.now()
      const status = await statusOf(
        put(uploadUrl, new Blob([new Uint8Array(MAX_FILE_BYTES)]), 'application/octet-stream'),
      )
      const peakMib = runtimes.reduce((sum, pid) => sum + peakMemoryBytes(pid), 0) / MIB
      console.log(`150 MiB in ${(Date.now() - start) / 1_000} s; workerd: ${Math.round(peakMib)} MiB at most`)
      return { status, peakMib }
    }
    // The first one fills buffers of the local bucket, which are then used again.
    const [first, second, third] = [await send(), await send(), await send()]
    expect([first, second, third].map(({ status }) => status)).toEqual([200, 200, 200])
    expect(await list('large')).toMatchObject([{ length: 150 * MIB }])
    if (!isReadable) return
    expect(second.peakMib, 'the memory that was seen').toBeGreaterThan(0)
    expect(third.peakMib - second.peakMib).toBeLessThan(75)
  })
})

describe('a company’s own storage, played by the local bucket', () => {
  const COMPANY = 77
  let token: string

  beforeAll(async () => {
    const file = join(dev.state, 'company-with-storage.json')
    await writeFile(
      file,
      JSON.stringify({
        company: { id: COMPANY, name: 'With a storage of its own', accounting_sync_enabled: false, suspended: false },
        clients: [{ id: 77_001, company_name: 'Club' }],
        orders: [{ id: 77_002, title: 'Jerseys', client_id: 77_001, created_date: '2026-01-31' }],
        integrations: {
          storage: {
            enabled: true,
            endpoint: `${dev.url}/cdn-cgi/local/r2/s3`,
            bucket: env.STORAGE_BUCKET,
            region: 'auto',
            credentials: {
              access_key_id: env.STORAGE_ACCESS_KEY_ID,
              secret_access_key: env.STORAGE_SECRET_ACCESS_KEY,
            },
          },
        },
      }),
    )
    await outputOf('seed', file, '--state', dev.state)
    const create = ['create', '--company', String(COMPANY), '--name', 'test', '--state', dev.state]
    token = (await outputOf('tokens', ...create)).trim()
  })

  it('takes uploads and is listed, with signatures that another implementation checks', async () => {
    const thread = 't+1:='
    const names = made.vectors.filter(({ key }) => !key.includes('y'.repeat(255))).map(({ fileName }) => fileName)
    for (const fileName of names) {
      const file = { fileName, size: 1, legacyThreadId: thread, contentType: 'text/plain' }
      const { uploadUrl } = await presign(file, { token }, 77_002)
      expect(uploadUrl).toContain('/cdn-cgi/local/r2/s3/')
      expect(await statusOf(put(uploadUrl, 'x', 'text/plain'))).toBe(200)
    }
    const listed = await list(thread, { token }, 77_002)
    const keys = names.map((name) => `orders/${COMPANY}/77002/email/${thread}/${name}`)
    expect(listed.map(({ path }) => path).sort()).toEqual(keys.sort())
    for (const key of keys) {
      const query = `path=${encodeURIComponent(key)}`
      const path = `/orders/77002/files/download?${query}`
      const { downloadUrl } = await api<{ downloadUrl: string }>(path, undefined, { token })
      expect(await (await fetch(downloadUrl)).text()).toBe('x')
      expect((await ask({ url: dev.url, token }, 'DELETE', `/orders/77002/files?${query}`)).status).toBe(200)
    }
    expect(await list(thread, { token }, 77_002)).toEqual([])
  })
})
