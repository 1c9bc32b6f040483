import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { presignUpload } from '../../../src/resources/files/contract.ts'
import { encodeKey, keyPrefix, LEGACY_THREAD_ID, sourceOf } from '../../../src/resources/files/keys.ts'

const wellFormed = fc.string({ unit: 'binary' })

/** The name in the key of an uploaded file; undefined for one that is refused. */
const nameOf = (fileName: string) => presignUpload.body.safeParse({ fileName, size: 0 }).data?.fileName

const UNCHANGED = ['...', '. .', ' spaces ', '%2e%2e', '..%2F..%2Fx', '\u202egpj.exe', '\uff0f\u2215\uff3c']

describe('the name of an uploaded file', () => {
  it.each([
    ['/etc/passwd', 'passwd'],
    ['../../orders/2/1/logo.png', 'logo.png'],
    ['C:\\Users\\ines\\logo.png', 'logo.png'],
    ['\\\\server\\share\\logo.png', 'logo.png'],
    ['..\\logo.png', 'logo.png'],
    ['a/b\\c/d\\e.txt', 'e.txt'],
    ['cafe\u0301.svg', 'caf\u00e9.svg'],
    ['lo\u0000g\r\no\u007f\u0085.png', 'logo.png'],
    ['e\u0000\u0301', '\u00e9'],
    [`${'folder/'.repeat(100)}x`, 'x'],
    ...[...UNCHANGED, 'x'.repeat(255), '\u00df'.repeat(127)].map((name) => [name, name]),
  ])('%j is %j', (given, name) => {
    expect(nameOf(given)).toBe(name)
  })

  const NAMELESS = [
    ...['', ' ', '\u00a0\u3000', '.', '..', 'folder/'],
    ...['folder\\', 'folder/..', 'C:\\.', '\u0000', '.\u0001.'],
  ]
  const TOO_LONG = ['x'.repeat(256), '\u00df'.repeat(128), '\ud83d\udc55'.repeat(64)]
  it.each([...NAMELESS, ...TOO_LONG])('%j is refused', (given) => {
    expect(nameOf(given)).toBeUndefined()
  })

  it('returns one segment of a key for any text, and is idempotent', () => {
    fc.assert(
      fc.property(wellFormed, (given) => {
        const name = nameOf(given)
        if (name === undefined) return
        expect(name).not.toMatch(/[/\\\p{Cc}]/u)
        expect(['', '.', '..']).not.toContain(name)
        expect(new TextEncoder().encode(name).length).toBeLessThanOrEqual(255)
        expect(nameOf(name)).toBe(name)
      }),
    )
  })

  it('keeps every character that is neither a slash nor a control character, normalized', () => {
    for (let code = 0; code <= 0xffff; code += 1) {
      if (code >= 0xd800 && code <= 0xdfff) continue
      const character = String.fromCodePoint(code)
      if (/[/\\\p{Cc}]/u.test(character)) continue
      const name = nameOf(`x ${character}`)
      if (name !== `x ${character}`.normalize('NFC')) expect.fail(code.toString(16))
    }
  })

  it('returns different names for names that differ in more than their Unicode form', () => {
    const name = wellFormed.map((text) => text.replace(/[/\\\p{Cc}]/gu, '').normalize('NFC'))
    fc.assert(
      fc.property(name, name, (a, b) => {
        const [one, other] = [nameOf(a), nameOf(b)]
        if (one !== undefined && other !== undefined) expect(one === other).toBe(a === b)
      }),
    )
  })
})

describe('keys', () => {
  it('of one order or thread never have the prefix of another', () => {
    const id = fc.integer({ min: 1, max: 150 })
    const thread = fc.constantFrom('t', 'tt', 't1')
    fc.assert(
      fc.property(id, id, id, id, thread, thread, (company, order, otherCompany, otherOrder, own, other) => {
        const isSame = company === otherCompany && order === otherOrder
        const key = `${keyPrefix(otherCompany, otherOrder, other)}x`
        expect(key.startsWith(keyPrefix(company, order))).toBe(isSame)
        expect(key.startsWith(keyPrefix(otherCompany, otherOrder, own))).toBe(own === other)
      }),
    )
  })

  it('stay in their folder when they are part of a URL', () => {
    fc.assert(
      fc.property(
        wellFormed,
        fc.stringMatching(/^[A-Za-z0-9_:.=+-]{1,20}$/).filter((id) => LEGACY_THREAD_ID.test(id)),
        (given, thread) => {
          const name = nameOf(given)
          if (name === undefined) return
          const key = keyPrefix(1, 2, thread) + name
          const path = `/bucket/${encodeKey(key)}`
          expect(new URL(`https://host${path}?x`).pathname).toBe(path)
          expect(decodeURIComponent(path)).toBe(`/bucket/${key}`)
          expect(encodeKey(key)).toMatch(/^[A-Za-z0-9\-._~%/]*$/)
        },
      ),
    )
  })
})

it('distinguishes mail from other files by the key', () => {
  expect(sourceOf('orders/1/2/email/t/x')).toBe('email')
  expect(sourceOf('orders/1/2/manual/x')).toBe('manual')
  expect(sourceOf('orders/1/2/email')).toBe('manual')
})
