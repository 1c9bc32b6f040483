import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { operations } from '../tools/fuzz/description.ts'
import { misfitTexts } from '../tools/fuzz/misfits.ts'
import { validText, validValue } from '../tools/fuzz/values.ts'

const bytesOf = (text: string) => Buffer.byteLength(text)

describe.each(['deleteFile', 'presignDownload'])('the path of %s', (id) => {
  const { schema } = operations.find((one) => one.id === id)?.queryParameters.find(({ name }) => name === 'path') ?? {
    schema: {},
  }

  it('is described with its bound in bytes', () => {
    expect(schema).toMatchObject({ maxLength: 1_024, 'x-max-bytes': 1_024 })
  })

  it('is made with at most 1,024 bytes, and broken with more in fewer characters', () => {
    const sizes = fc.sample(validText(schema), { numRuns: 1_000, seed: 20_199 }).map(bytesOf)
    expect(Math.max(...sizes)).toBe(1_024)
    const broken = misfitTexts(schema).flat()
    expect(broken.some((text) => text.length < 1_024 && bytesOf(text) > 1_024)).toBe(true)
  })
})

it('names no member of a context as its schema forbids', () => {
  const schema = operations.find((one) => one.id === 'putThreadContext')?.body ?? {}
  const bodies = fc.sample(validValue(schema), { numRuns: 1_000, seed: 829_724_519 }) as Record<string, unknown>[]
  const elements = bodies.flatMap(({ client_data, orders_data }) => [client_data, orders_data ?? []]).flat()
  const names = new Set(elements.flatMap((element) => Object.keys(Object(element))))
  expect([names.has('constructor'), names.has('__proto__')]).toEqual([true, false])
})
