import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { expect200, issuesOf, mintCompany } from '../../support/app.ts'
import { addItem, addLine, get, mintInvoice, search } from './support.ts'

const ITEMS = [
  ...['Heavy cotton tee', 'COTTON hoodie, Größe M', '100% wool "Oslo" cap'],
  ...['Ελληνικός tote', 'Футболка XL', 'é'],
]

const company = await mintCompany()
for (const [index, title] of ITEMS.entries()) await addItem(company, { id: index + 1, title, description: 'secret' })
await addItem(company, { id: 99, title: 'Heavy cotton tee, gone', deleted: true })
const { orderId, invoiceId } = await mintInvoice(company)
await addLine(company, { id: 1, invoiceId, title: 'Cotton tee', description: 'Navy, front print' })
await addLine(company, { id: 2, invoiceId, title: 'Setup', description: 'Screens for the cotton run' })

const rival = await mintCompany()
await addItem(rival, { id: 1, title: 'Heavy cotton tee of the rival' })
const rivalInvoice = await mintInvoice(rival)
await addLine(rival, { id: 1, invoiceId: rivalInvoice.invoiceId, title: 'Cotton tee of the rival' })

const idsOf = (rows: { id: number }[]) => rows.map(({ id }) => id)

/** Of the query language, which a text is not in. */
const OPERATORS = ['cotton OR wool', 'cott*', 'NOT cotton', 'title:cotton', 'cotton -tee', '_otton', 'cotton NEAR tee']

describe('the text', () => {
  it.each([
    ['cotton', [2, 1], [2, 1]],
    ['TON tEE', [1], [1]],
    ['tee cotton', [1], [1]],
    ['  cotton \t heavy ', [1], []],
    ['größe', [2], []],
    ['GRÖSSE', [2], []],
    ['ΕΛΛΗΝΙΚΌΣ', [4], []],
    ['ελληνικόσ', [4], []],
    ['футболка', [5], []],
    ['футболка xl', [5], []],
    ['É', [6], []],
    ['m', [2], []],
    ['"Oslo"', [3], []],
    ['100%', [3], []],
    ['navy', [], [1]],
    ['secret', [], []],
    ['cotton navy', [], [1]],
    ['screens setup', [], [2]],
    ['tee navy gone', [], []],
    ['rival', [], []],
    ...OPERATORS.map((q): [string, number[], number[]] => [q, [], []]),
  ])('%j finds items %j and lines %j', async (q, items, lines) => {
    const result = await search(company, q)
    expect(idsOf(result.local_items)).toEqual(items)
    expect(idsOf(result.invoice_lines)).toEqual(lines)
    expect(result.query).toBe(q)
    const [supplier_a, supplier_b] = ['not_configured', 'not_configured']
    expect(result.sources).toEqual({ local: 'ok', lines: 'ok', supplier_a, supplier_b })
  })

  it('returns items and lines in the published form', async () => {
    const result = await search(company, 'cotton tee')
    expect(result.local_items).toEqual([{ id: 1, title: 'Heavy cotton tee', description: 'secret', price: 9.5 }])
    expect(result.invoice_lines[0]).toMatchObject({ id: 1, invoice_id: invoiceId, total: 114 })
  })

  it('returns the newest items and no lines when it is blank or left out', async () => {
    for (const query of ['', '?q=', '?q=%20%09', '?q=%00%1f']) {
      const body = expect200(await get(company, `/products/search${query}`))
      expect(idsOf(body.local_items)).toEqual([6, 5, 4, 3, 2, 1])
      expect(body).toMatchObject({ invoice_lines: [], supplier_b_styles: [] })
      expect(body.supplier_a).toEqual({ style: null, products: [], count: 0, summary: null })
      expect(body.sources).toEqual({ local: 'ok', lines: 'skipped', supplier_a: 'skipped', supplier_b: 'skipped' })
    }
  })

  it('never fails, whatever it is', async () => {
    const sign = fc.constantFrom('"', "'", '*', '-', '(', ')', ':', '^', ' ', 'a', 'AND', '%', '\0')
    const odd = fc.oneof(fc.string({ unit: 'binary', maxLength: 100 }), fc.string({ unit: sign, maxLength: 30 }))
    await fc.assert(
      fc.asyncProperty(odd, async (q) => {
        const { status } = await get(company, `/products/search?q=${encodeURIComponent(q)}`)
        expect(status).toBe(200)
      }),
      { numRuns: 120 },
    )
  })

  it('is searched up to 200 characters; a longer one is a 400', async () => {
    expect((await search(company, 'é'.repeat(200))).local_items).toEqual([])
    expect(issuesOf(await get(company, `/products/search?q=${'x'.repeat(300)}`))[0]).toBe('q')
  })
})

describe('words of any length', () => {
  it('find what holds every one of them as a substring, whatever they are', async () => {
    const shop = await mintCompany()
    const { invoiceId } = await mintInvoice(shop)
    const characters = ['x', 'l', 'e\u0301', 'ß', 'ж', '漢', '🧵', '"', "'", '*', '-', ':', '(', '%', '1']
    const word = fc.string({ unit: fc.constantFrom(...characters), minLength: 1, maxLength: 5 })
    const titles = fc.sample(fc.array(word, { minLength: 1, maxLength: 4 }), { seed: 7, numRuns: 40 })
    for (const [index, words] of titles.entries()) {
      await addItem(shop, { id: index + 1, title: words.join(' ') })
      await addLine(shop, { id: index + 1, invoiceId, title: words.join(' '), description: words.join('') })
    }
    const plain = (text: string) => text.normalize('NFC').toLowerCase().replaceAll('ß', 'ss')
    const holding = (words: string[], textsOf: (title: string[]) => string[]) =>
      titles
        .flatMap((title, index) => {
          const texts = textsOf(title).map(plain)
          return words.every((each) => texts.some((text) => text.includes(each))) ? [index + 1] : []
        })
        .reverse()
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.oneof(word, fc.constantFrom(...titles.flat())), { minLength: 1, maxLength: 8 }),
        async (words) => {
          const q = words.join(' ')
          const wanted = plain(q)
            .split(/\s+/)
            .filter((each) => each !== '')
          const result = await search(shop, q, { include: 'local,lines' })
          expect(idsOf(result.local_items), q).toEqual(holding(wanted, (title) => [title.join(' ')]))
          expect(idsOf(result.invoice_lines), q).toEqual(holding(wanted, (title) => [title.join(' '), title.join('')]))
        },
      ),
      { numRuns: 100 },
    )
  })

  it('are taken a hundred at a time, repeated and contained in each other', async () => {
    const shop = await mintCompany()
    const letters = Array.from({ length: 90 }, (_, n) => String.fromCodePoint(0x4e00 + n))
    await addItem(shop, { id: 1, title: letters.join('') })
    await addItem(shop, { id: 2, title: letters.slice(1).join('') })
    const found = async (words: string[]) => {
      const { local_items, sources } = await search(shop, words.join(' '))
      expect(sources.local).toBe('ok')
      return idsOf(local_items)
    }
    expect(await found(letters)).toEqual([1])
    expect(await found(letters.slice(1))).toEqual([2, 1])
    expect(await found([...letters.slice(1), 'x'])).toEqual([])
    expect(await found(Array.from({ length: 100 }, () => letters[5] ?? ''))).toEqual([2, 1])
    const nested = [2, 3, 5, 8].map((end) => letters.slice(0, end).join(''))
    expect(await found([...nested, ...nested])).toEqual([1])
    expect(await found([...nested, letters.slice(80).join('')])).toEqual([1])
  })
})

it('finds by a word of 200 characters only what has all of it', async () => {
  const shop = await mintCompany()
  const { invoiceId } = await mintInvoice(shop)
  for (const [index, end] of ['b tee', 'c tee', 'b'].entries()) {
    await addItem(shop, { id: index + 1, title: `${'a'.repeat(199)}${end}` })
    await addLine(shop, { id: index + 1, invoiceId, title: `${'a'.repeat(199)}${end}` })
  }
  for (const [q, ids] of [
    ['b', [3, 1]],
    ['b tee', [1]],
    ['d', []],
  ] as const) {
    const { local_items, invoice_lines } = await search(shop, `${'a'.repeat(200 - q.length)}${q}`)
    expect([idsOf(local_items), idsOf(invoice_lines)]).toEqual([ids, ids])
  }
})

it('at most 50 items and lines are found, 20 items without a text, newest first', async () => {
  const shop = await mintCompany()
  const invoice = await mintInvoice(shop)
  for (let id = 1; id <= 55; id++) {
    await addItem(shop, { id, title: `Tee ${id}` })
    await addLine(shop, { id, invoiceId: invoice.invoiceId, title: `Tee ${id}` })
  }
  const newest = (count: number) => Array.from({ length: count }, (_, index) => 55 - index)
  for (const q of ['tee', 'te']) {
    const result = await search(shop, q)
    expect(idsOf(result.local_items)).toEqual(newest(50))
    expect(idsOf(result.invoice_lines)).toEqual(newest(50))
  }
  expect(idsOf((await search(shop, '')).local_items)).toEqual(newest(20))
})

describe('include', () => {
  it.each([
    ['local', ['local']],
    ['lines', ['lines']],
    ['local,lines', ['local', 'lines']],
    [' local , lines ,', ['local', 'lines']],
    ['supplier_a', ['supplier_a']],
    ['supplier_b,supplier_a,supplier_b', ['supplier_a', 'supplier_b']],
    ['', ['local', 'lines', 'supplier_a', 'supplier_b']],
    [',', ['local', 'lines', 'supplier_a', 'supplier_b']],
  ])('%j searches %j', async (include, searched) => {
    const result = await search(company, 'cotton PC61', { include })
    const skipped = Object.entries(result.sources).flatMap(([source, state]) => (state === 'skipped' ? [source] : []))
    expect(skipped.sort()).toEqual(
      ['lines', 'local', 'supplier_a', 'supplier_b'].filter((name) => !searched.includes(name)),
    )
    if (!searched.includes('local')) expect(result.local_items).toEqual([])
    if (!searched.includes('lines')) expect(result.invoice_lines).toEqual([])
  })

  const UNKNOWN = ['everything', 'local,everything', 'LOCAL', 'invoice_item', 'local;lines', 'x'.repeat(300)]
  it.each(UNKNOWN)('returns 400 for %j', async (include) => {
    const [path] = issuesOf(await get(company, `/products/search?include=${encodeURIComponent(include)}`))
    expect(path).toMatch(/^include/)
  })
})

describe('an invoice item', () => {
  it('is read whole by its id', async () => {
    const { invoice_items } = (await get(company, `/orders/${orderId}`)).body
    const item = invoice_items.find(({ id }: { id: number }) => id === 1)
    expect(item).toMatchObject({ invoice_id: invoiceId, title: 'Cotton tee', unit_price: 9.5, total: 114 })
    expect((await get(company, '/products/invoice_item?id=1')).body).toEqual({ source: 'invoice_item', item })
  })

  it('returns 404 when it is of another company, of a deleted order, or unknown', async () => {
    const rival = await mintCompany()
    const { orderId, invoiceId: itsInvoice } = await mintInvoice(rival)
    await addLine(rival, { id: 777, invoiceId: itsInvoice, title: 'Cap' })
    expect((await get(rival, '/products/invoice_item?id=777')).status).toBe(200)
    expect((await get(company, '/products/invoice_item?id=777')).status).toBe(404)
    expect((await get(company, '/products/invoice_item?id=9007199254740991')).status).toBe(404)
    await rival.call('DELETE', `/orders/${orderId}`)
    expect((await get(rival, '/products/invoice_item?id=777')).status).toBe(404)
    expect((await search(rival, 'cap')).invoice_lines).toEqual([])
  })

  const NO_IDS = ['', '0', '-1', '1.5', 'abc', '1e3', '9007199254740992', '1&id=2'].map((id) => `?id=${id}`)
  it.each(['', ...NO_IDS])('returns 400 for %j', async (query) => {
    expect(issuesOf(await get(company, `/products/invoice_item${query}`))[0]).toBe('id')
  })
})

it('returns 404 for any other source', async () => {
  for (const source of ['local', 'lines', 'supplier_c', 'Supplier_a', '%F0%9F%A7%A2']) {
    expect((await get(company, `/products/${source}?id=1`)).status).toBe(404)
  }
})
