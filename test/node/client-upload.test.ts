import { expect, it, vi } from 'vitest'
import { createClient } from '../../src/client/index.ts'

it.each([
  ['bytes', (bytes: Uint8Array) => bytes],
  ['a blob', (bytes: Uint8Array<ArrayBuffer>) => new Blob([bytes])],
  ['shared memory', (bytes: Uint8Array) => Object.assign(new Uint8Array(new SharedArrayBuffer(bytes.length)), bytes)],
])('an upload of %s is sent in chunks that a slow line takes in 300 seconds, the limit of Node', async (_, dataOf) => {
  const bytes = Uint8Array.from({ length: 2_500_000 }, (_, index) => index % 251)
  const copy = vi.spyOn(bytes, 'slice')
  const sent: Uint8Array[] = []
  const api = createClient({
    baseUrl: 'https://api.example',
    token: 'a'.repeat(64),
    async fetch(_url, { body }) {
      for await (const chunk of new Response(body).body ?? []) sent.push(chunk)
      return new Response('')
    },
  })
  const presigned = { uploadUrl: 'https://storage.example/file', contentType: 'image/png' }
  await api.files.upload(presigned, dataOf(bytes))
  expect(Math.max(...sent.map(({ length }) => length))).toBeLessThanOrEqual(1_000_000)
  expect(Buffer.concat(sent).equals(bytes)).toBe(true)
  // The blob that fetch gets has a copy of its own.
  expect(copy).not.toHaveBeenCalled()
})
