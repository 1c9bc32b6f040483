/// <reference types="vite/types/importMeta.d.ts" />
import { expect, it } from 'vitest'

/*
 * In SQLite `<<`, `>>`, `&` and `|` have one precedence, below `+` and `-`: `slot << 53 | block << 12` is
 * `((slot << 53) | block) << 12`. So raw SQL has them in a few forms only, with parentheses, and casts what is bound.
 */
const ALLOWED = [
  /\(\(CAST\(\? AS INTEGER\) << 53\) \| CAST\(\? AS INTEGER\)\)/g,
  /\(CAST\(\? AS INTEGER\) & 9007199254740991\)/g,
  /\(SELECT CAST\(slot AS INTEGER\) << 53 FROM companies\b/g,
  /\(slot << 53\) \| (new|old)\.id\b/g,
]
const sources = import.meta.glob<string>(['../../../src/**/*.ts', '../../../drizzle/*.sql'], {
  query: '?raw',
  import: 'default',
  eager: true,
})

const BEGINS = String.raw`\s*(?:SELECT|INSERT|UPDATE|DELETE|WITH|CREATE|ALTER|VALUES|AND|OR|WHERE|BETWEEN|CAST)\b`
/** The SQL of a TypeScript file: what is tagged, given to `sql.raw`, or begins as SQL does. */
const LITERALS = [
  /(?<![.\w])sql(?:<[^`()]*>|\.raw\()?`(?=([^`]*))/g,
  new RegExp(`\`(${BEGINS}[^\`]*)`, 'g'),
  new RegExp(`'(${BEGINS}[^'\n]*)'`, 'g'),
  new RegExp(`"(${BEGINS}[^"\n]*)"`, 'g'),
]

/** A template in an interpolation, without one of its own. */
const NESTED = /\$\{[^{}`]*?((?:\bsql(?:<[^`()]*>|\.raw\()?)?`(?:[^`$]|\$\{[^{}`]*\})*`)/g

function breachesOf(path: string, text: string): string[] {
  const inner: string[] = []
  let outer = text
  // A template in an interpolation would end the outer one: the innermost are taken out first.
  for (let before = ''; before !== outer; ) {
    before = outer
    outer = outer.replaceAll(NESTED, (_, template: string) => {
      inner.push(template)
      return '${nested'
    })
  }
  const literals = LITERALS.flatMap((literal) =>
    Array.from([outer, ...inner].join('\n').matchAll(literal), ([, sql = '']) => sql),
  )
  const statements = path.endsWith('.sql') ? text.split(';') : literals
  const plain = statements.map((sql) => {
    const bound = sql.replaceAll(/\$\{[^{}]*\}/g, '?').replaceAll(/--[^\n]*|'[^'\n]*'|\|\||->>?/g, ' ')
    return ALLOWED.reduce((rest, form) => rest.replaceAll(form, ' '), bound)
  })
  return plain.filter((sql) => /<<|>>|[&|]/.test(sql)).map((sql) => `${path}: ${sql}`)
}

/** As a source file; `$[…]` is an interpolation. */
const wrap = (sql: string) =>
  `const a = "it's" // don't\nexport const d = sql<string | null>\`${sql.replaceAll(/\$\[(.*?)\]/g, '$${$1}')}\`\n`

it('operators on bits in raw SQL have the allowed forms alone', () => {
  expect(Object.keys(sources).length).toBeGreaterThan(200)
  expect(Object.keys(sources)).toContain('../../../drizzle/0000_initial.sql')
  expect(Object.entries(sources).flatMap(([path, text]) => breachesOf(path, text))).toEqual([])
})

it.each([
  'CAST(?1 AS INTEGER) << 53 | 4095',
  'SELECT high << 12 | 4095 FROM span',
  'SELECT slot << 53 | new.id FROM companies',
  'UPDATE a SET b = a & b >> 3',
  'SELECT id << 12 + 1 FROM b',
  'SELECT id - 1 | 7 FROM b',
  'SELECT a << ? FROM b',
  "UPDATE a SET b = '|' || c | d & e",
  'DELETE FROM a WHERE rowid = rowid | ?1',
  'DELETE FROM a WHERE rowid = rowid & (? + 1)',
  "SELECT printf('%d', a | b & c) FROM t",
])('operators on bits in raw SQL are refused in a migration and in TypeScript: %s', (sql) => {
  expect(breachesOf('9999_next.sql', sql)).toHaveLength(1)
  expect(breachesOf('a.ts', wrap(sql))).not.toEqual([])
  if (!sql.startsWith('CAST')) expect(breachesOf('a.ts', `statement(\`${sql}\`, companyId)`)).not.toEqual([])
})

it.each([
  '(CAST($[slot] AS INTEGER) << 53 | $[block] << 12)',
  '$[slot] << 53',
  'rowid & ($[mask])',
  'x = y AND $[inner(sql`a | b << 1`)]',
  'x = y AND $[sql.raw(`a >> b << 3`)]',
  "x = y` + statement('SELECT id & 7 - 1 FROM b') + `",
  'rowid > $[a ? sql`1` : sql`2`] AND id = $[slot] << 53',
])('operators on bits in raw SQL are refused in TypeScript: %s', (sql) => {
  expect(breachesOf('a.ts', wrap(sql))).not.toEqual([])
})

it.each([
  '((CAST($[slot] AS INTEGER) << 53) | CAST($[id] AS INTEGER))',
  "a || '|' || b || char(31) -- a | b << 1",
  "value ->> 'a', value -> 1",
  '(SELECT $[token] FROM t) || $[gram] || 1',
])('operators on bits in raw SQL are accepted: %s', (sql) => {
  expect(breachesOf('a.ts', wrap(sql))).toEqual([])
})
