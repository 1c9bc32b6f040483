import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { chooseOrder, toBaseName, toContentType } from '../../src/client/attachments.ts'
import { presignUpload } from '../../src/resources/files/contract.ts'

describe('chooseOrder', () => {
  it.each([
    ['the selected order', '7', [{ id: 1 }, { id: 2 }], { orderId: '7' }],
    ['the selected order where no others are linked', '7', [], { orderId: '7' }],
    ['the only order', null, [{ id: 12 }], { orderId: '12' }],
    ['the only order where its id is a string', null, [{ id: '12' }], { orderId: '12' }],
    ['the only order where the selection is blank', ' ', [{ id: 12 }], { orderId: '12' }],
    ['no order of several', null, [{ id: 1 }, { id: 2 }], { reason: 'several_orders' }],
    ['no order of an empty list', null, [], { reason: 'no_orders' }],
    ['no order of null', null, null, { reason: 'no_orders' }],
    ['no order of a value that is not a list', null, { id: 1 }, { reason: 'no_orders' }],
    ['no order of an element without an id', null, [{ title: 'x' }], { reason: 'no_orders' }],
  ])('returns %s', (_name, selected_order_id, orders_data, expected) => {
    expect(chooseOrder({ selected_order_id, orders_data })).toEqual(expected)
  })
})

describe('names and content types', () => {
  it.each([
    ['logo.png', 'logo.png'],
    ['a/b\\c/logo.png', 'logo.png'],
    ['C:\\art\\logo.png', 'logo.png'],
    ['../../etc/passwd', 'passwd'],
    ['e\u0301.png', 'é.png'],
    ['a\u0000\r\n\u007f\u0085b.png', 'ab.png'],
    ['folder/', null],
    ['..', null],
    ['.\u0007.', null],
    ['  ', null],
    ['', null],
    [undefined, null],
    [7, null],
  ])('%j has the base name %j', (filename, expected) => {
    expect(toBaseName(filename)).toBe(expected)
  })

  it.each([
    [' text/plain; charset=utf-8 ', 'text/plain; charset=utf-8'],
    ['image/png\r\nX-Other: 1', undefined],
    [null, undefined],
  ])('%j is sent as content type %j', (mimeType, expected) => {
    expect(toContentType(mimeType)).toBe(expected)
  })

  it('replace a lone surrogate, which no request can contain', () => {
    // Escaped: the text of a failure could not be sent out of the worker.
    expect(JSON.stringify(toBaseName('a\ud800😀.png'))).toBe('"a\ufffd😀.png"')
  })

  const part = fc.oneof(
    fc.constantFrom('image', '.pdf', '_x', '-', 'x-a+b', '9', 'a'.repeat(127), 'a'.repeat(128)),
    fc.string({ maxLength: 3 }),
  )
  const suffix = fc.constantFrom('', ' ', ';', '  ; a=b', '; é', '\n', `;${'x'.repeat(250)}`)
  const mimeType = fc.tuple(part, fc.constantFrom('/', '/', '//', ''), part, suffix).map((parts) => parts.join(''))

  it('are sent with exactly the content types that the API accepts', () => {
    const accepts = (contentType: string) =>
      presignUpload.body.safeParse({ fileName: 'a', size: 1, contentType }).success
    fc.assert(
      fc.property(mimeType, (text) => {
        expect(toContentType(text)).toBe(accepts(text.trim()) ? text.trim() : undefined)
      }),
    )
  })
})
