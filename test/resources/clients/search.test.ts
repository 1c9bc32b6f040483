import { expect, it } from 'vitest'
import { clientSearch, wordsSearch } from '../../../src/kernel/db/search.ts'
import { expect200, mintCompany, type TestCompany } from '../../support/app.ts'
import { idsOf, pathOf } from '../../support/lists.ts'

async function create(company: TestCompany, body: Record<string, unknown>): Promise<number> {
  return expect200(await company.call('POST', '/clients', body)).client.id
}

async function find(company: TestCompany, q: string, deleted = 'exclude'): Promise<number[]> {
  const { body } = await company.call('GET', pathOf('/clients', { per_page: 100, q, deleted }))
  const ids = idsOf(body.data)
  expect(body.pagination.total, q).toBe(ids.length)
  return ids
}

/** A name or fields that are stored, searches that must find them, and searches that must not, with bars between. */
const CASES: [string, string | Record<string, string>, hits: string, misses: string][] = [
  [
    'Latin',
    'Harbor Rowing Club',
    'harbor|ROW|r r|b|or rowing c|CLUB|club\u0000|\u001fb\u0085|r\tr',
    'harborr|rowingclub|z',
  ],
  ['German', 'Straße & Söhne', 'STRASSE|straße|STRAẞE|SÖHNE|ße|sÖ', 'sohne'],
  ['Greek', 'ΟΔΥΣΣΕΥΣ Α.Ε.', 'οδυσσευς|οδυσσευσ|ΣΣ|ευς|ς|σ', 'οδυσευς'],
  ['Greek, written small', 'Σίσυφος', 'ΣΊΣΥΦΟΣ|σίσυφοσ|φος|φοσ', 'ΣΙΣΥΦΟΣ'],
  ['Turkish', 'İstanbul Tekstil Işıklar', 'istanbul|İSTANBUL|ISTANBUL|ışık|IŞIK|TEKSTİL', 'ızmir'],
  ['Cyrillic', 'Фабрика Одежды', 'ФАБРИКА|одежды|КА ОД|ф', 'фабрики'],
  ['Georgian', 'თბილისი', 'ᲗᲑᲘᲚᲘᲡᲘ|ბილ', 'ქ'],
  ['Arabic', 'شركة الملابس', 'شركة|ملابس|ة ا|س', 'شركات'],
  ['Hebrew', 'חולצות', 'צות|ח', 'חולצה'],
  ['Chinese', '东京服装有限公司', '东|东京|服装有|有限公司', '京东|東'],
  ['Japanese', '株式会社プリント', 'プ|プリ|プリント|株式会社プ', 'プント'],
  ['Korean', '서울인쇄', '서|서울|울인쇄', '쇄인'],
  ['Thai', 'เสื้อยืด', 'เสื้อ|ยืด', 'ผ้า'],
  ['Hindi', 'कपड़ा मिल', 'कपड़ा|मिल', 'मील'],
  ['emoji', '🧵 Thread 👩‍🎨 & 🇵🇹', '🧵|👩‍🎨|🇵🇹|🧵 t|🎨 & ', '🧶|🇹🇵'],
  ['accents in either form', 'Cafe\u0301 Zoë', 'café|CAFE\u0301|Zoe\u0308|É Z', 'cafe z|zoe'],
  ['ligatures and width', 'Oﬃce', 'office|OFFICE|ﬃ', ''],
  [
    'signs of pattern languages',
    '100% _cotton_ *soft* a?b [c] ^d$ \\e',
    '%|100%|% _|_cotton_|*soft*|a?b|[c]|^d$|\\e|\\',
    '100_|%c|_otton|*s*t|a.b|.*',
  ],
  [
    'words of the query language',
    `NOT "AND" OR NEAR(x y, 3) col:val -minus +plus 'q' ; -- x`,
    `NOT|"and"|"|or|NEAR(x|near(x y, 3)|col:val|-minus|+plus|'q'|'|; --|AND"`,
    'NOT OR|text:not|minus -|""|AND OR',
  ],
  [
    'control characters',
    { company_name: 'tab here', first_name: 'line break' },
    'tab\there|tab here|b\u001fh|line break',
    'tabhere|linebreak',
  ],
  [
    'names',
    { first_name: 'Anna', last_name: 'Maria' },
    'anna|maria|anna maria|a m|NA MA',
    'maria anna|annamaria|co anna|coanna',
  ],
  ['one name only', { last_name: 'Solo' }, 'solo|olo', ' solo co|co solo|null'],
  [
    'no match across fields',
    { company_name: 'alpha', first_name: 'beta', last_name: 'gamma', email: 'delta@x.example', phone: '123' },
    'alpha|beta gamma|delta@',
    'alpha beta|alphabeta|gammadelta|gamma delta|gamma\u001fdelta|example123|example 123|alpha\u001fbeta',
  ],
  ['email', { email: 'First.Last+tag@Sub.X.example' }, 'first.last|LAST+TAG|@sub.x|.example|@', 'first last'],
  [
    'phone',
    { phone: '+1 (555) 010-0142 x9' },
    '5550100142|555-010|(555) 010-0142|555.010.0142|1555|0 1 4 2|55|9|+1 (555|01429',
    '55510|5550142|777',
  ],
  [
    'phone, typed by other means',
    { phone: '+1\u00a0555–010‑0142' },
    '555‑010‑0142|555–010—0142|５５５０１０|（555） 010－0142|5550100142|555−010−0142',
    '555‑011|５５６',
  ],
  ['digits that stand elsewhere', { company_name: 'Unit 12-34', email: 'a1234@x.example' }, '12-34|1234', '12 34|234-'],
  ['what is not searched', { website: 'findme.example', tax_exempt_reason: 'findme' }, 'co', 'findme'],
]

it.each(CASES)('a search of clients finds substrings and nothing else: %s', async (_, fields, hits, misses) => {
  const company = await mintCompany()
  await create(company, { company_name: 'ŒŒŒ' })
  const id = await create(company, {
    company_name: 'co',
    ...(typeof fields === 'string' ? { company_name: fields } : fields),
  })
  for (const deleted of ['exclude', 'only']) {
    for (const q of hits.split('|')) expect(await find(company, q, deleted), `must find: ${q}`).toEqual([id])
    for (const q of misses === '' ? [] : misses.split('|'))
      expect(await find(company, q, deleted), `must not find: ${q}`).toEqual([])
    await company.call('PATCH', `/clients/${id}`, { deleted: true })
  }
})

it('a search of clients accepts 1 to 200 characters, whatever their bytes', async () => {
  const company = await mintCompany()
  for (const character of ['x', 'é', '漢', '🧵']) {
    const id = await create(company, { company_name: `${character.repeat(220)}!` })
    for (const length of [1, 2, 3, 4, 13, 17, 26, 50, 51, 199, 200]) {
      expect(await find(company, character.repeat(length)), `${character} × ${length}`).toEqual([id])
    }
    expect(await find(company, `${character.repeat(199)}!`)).toEqual([id])
    expect(await find(company, `${character.repeat(199)}?`)).toEqual([])
    const tooLong = await company.call('GET', `/clients?q=${encodeURIComponent(character.repeat(201))}`)
    expect(tooLong.body.error).toMatchObject({ details: { issues: [{ path: 'q' }] } })
  }
})

it('a search has phrases with few trigrams twice, since FTS5 reads their places again for each', () => {
  const texts = [
    'A'.repeat(4),
    'A'.repeat(200),
    '5'.repeat(200),
    'AB'.repeat(12),
    `${'ABCDEF'.repeat(9)}G`,
    'NO ANANAS',
  ]
  const matches = texts.flatMap((text) => [clientSearch(text).match, wordsSearch(`X ${text}`)?.match ?? ''])
  for (const match of matches) {
    for (const [, phrase = ''] of match.matchAll(/(?:text|digits) : "([^"]*)"/g)) {
      const trigrams = Array.from(phrase.slice(2), (_, at) => phrase.slice(at, at + 3))
      expect(new Set(trigrams).size, phrase).toBeGreaterThanOrEqual(trigrams.length - 4)
      expect(phrase.length).toBeLessThanOrEqual(24)
    }
  }
  expect(clientSearch('ABCABD')).toMatchObject({ match: 'text : "ABCABD"', isLong: undefined })
  expect(clientSearch('A'.repeat(200)).match).toBe('text : "AAAAAAA"')
  // An ordinary search reads no row for each hit.
  for (const text of ['BANANA', '5555', '100000']) expect(clientSearch(text)).toMatchObject({ isLong: undefined })
})

it('words that have a trigram in common share its places', async () => {
  const last = Array.from('BCDEFGHIJKLMNOPQRSTUVWXYZ0123456789')
  const { match = '' } = wordsSearch(last.map((letter) => `AAA${letter}`).join(' ')) ?? {}
  expect(match.split('"').filter((text) => text.includes('AAA')).length).toBeLessThanOrEqual(11)
  for (const letter of last) expect(match).toContain(`AA${letter}`)
  expect(wordsSearch('hoodie-xl hoodie-xs')).toMatchObject({ compared: '["HOODIE-XS"]' })
  expect(wordsSearch('555 1 555 2 5551')).toMatchObject({ compared: undefined })
})

it('a search for like letters counts them', async () => {
  const company = await mintCompany()
  const [four, nine] = [
    await create(company, { company_name: 'aaaa b' }),
    await create(company, { phone: '9999', company_name: 'b' }),
  ]
  expect(await find(company, 'aaaa')).toEqual([four])
  expect(await find(company, 'aaaaa')).toEqual([])
  expect(await find(company, 'aaa aaa')).toEqual([])
  expect(await find(company, '9999')).toEqual([nine])
  expect(await find(company, '99999')).toEqual([])
})

it('a search of clients reflects updates of each field, deletion and restoration', async () => {
  const company = await mintCompany()
  const fields = { company_name: 'before', first_name: 'Uno', email: 'uno@x.example', phone: '111222' }
  const id = await create(company, fields)
  const change = (body: unknown) => company.call('PATCH', `/clients/${id}`, body)
  const hits = (...queries: string[]) => Promise.all(queries.map(async (q) => (await find(company, q)).length))
  await change({ last_name: 'Dos' })
  expect(await hits('uno dos')).toEqual([1])
  await change({ first_name: null })
  expect(await hits('uno d', 'dos', 'uno@')).toEqual([0, 1, 1])
  await change({ email: null, phone: '333444' })
  expect(await hits('uno', '111222', '33-34')).toEqual([0, 0, 1])
  await change({ deleted: true, company_name: 'after' })
  expect(await hits('before', 'after')).toEqual([0, 0])
  await change({ phone: null })
  await change({ deleted: false })
  expect(await hits('before', 'after', '333')).toEqual([0, 1, 0])
})
