/// <reference types="vite/types/importMeta.d.ts" />
import { describe, expect, it } from 'vitest'

/*
 * In SQLite `<<`, `>>`, `&` and `|` have one precedence, below `+` and `-`: `slot << 53 | block << 12` is
 * `((slot << 53) | block) << 12`. So raw SQL has parentheses wherever two of them meet. A bound value, which may be text or
 * a number with a fraction, and a fragment, which may have operators of its own, are cast before they are shifted or joined.
 */
const sources = import.meta.glob<string>(['../../../src/**/*.ts', '../../../drizzle/*.sql'], {
  query: '?raw',
  import: 'default',
  eager: true,
})

const STARTS_SQL = /^\s*(SELECT|INSERT|UPDATE|DELETE|WITH|CREATE|ALTER|VALUES|AND|OR|WHERE|BETWEEN|CAST|\()/
/** Stands for `${…}`. */
const VALUE = '?'

/** The SQL among the literals of a TypeScript file: what is tagged, given to `sql.raw`, or begins as SQL does. */
function literalsOf(text: string): string[] {
  const found: string[] = []
  let at = 0
  const quoted = (quote: string) => {
    const start = at++
    while (text[at] !== quote && at < text.length) at += text[at] === '\\' ? 2 : 1
    return text.slice(start + 1, at++)
  }
  const template = () => {
    let content = ''
    at++
    while (text[at] !== '`' && at < text.length) {
      if (text.startsWith('${', at)) {
        at += 2
        code('}')
        content += VALUE
      } else {
        content += text.slice(at, at + (text[at] === '\\' ? 2 : 1))
        at += text[at] === '\\' ? 2 : 1
      }
    }
    at++
    return content
  }
  function code(end: string) {
    for (let depth = 0; at < text.length; ) {
      const before = text.slice(Math.max(0, at - 80), at)
      const character = text[at] ?? ''
      if (character === end && depth === 0) break
      if (text.startsWith('//', at)) at = (text.indexOf('\n', at) + 1 || text.length + 1) - 1
      else if (text.startsWith('/*', at)) at = text.indexOf('*/', at) + 2
      else if (character === '/' && /(^|[(,=:[!&|?{};\n]|=>|return)\s*$/.test(before)) {
        at += /^\/(\[([^\]\\\n]|\\.)*\]|[^/\\\n[]|\\.)+\//.exec(text.slice(at))?.[0].length ?? 1
      } else if (character === '`' || character === "'" || character === '"') {
        const isTagged = /\bsql(<[^`]*>)?$|\bsql\.raw\($/.test(before)
        const content = character === '`' ? template() : quoted(character)
        if (isTagged || STARTS_SQL.test(content)) found.push(content)
      } else {
        if (character === '{') depth++
        if (character === '}') depth--
        at++
      }
    }
    at++
  }
  code('')
  return found
}

const TOKEN =
  /\s+|--[^\n]*|\/\*[\s\S]*?\*\/|'(?:[^']|'')*'|"[^"]*"|`[^`]*`|->>|->|\|\||<<|>>|<=|>=|<>|!=|==|\?\d*|[\w$.]+|[^\s]/g
const BITWISE = new Set(['<<', '>>', '&', '|'])
/** What stands between expressions. A keyword that is not here would only join two of them, and report too much. */
const ENDS =
  /^(,|;|=|<|>|<=|>=|<>|!=|==|SELECT|FROM|WHERE|AND|OR|NOT|AS|ON|IN|IS|LIKE|GLOB|MATCH|BETWEEN|WHEN|THEN|ELSE|END|CASE|SET|VALUES|ORDER|GROUP|BY|LIMIT|OFFSET|HAVING|UNION|ALL|DISTINCT|RETURNING|JOIN|CROSS|LEFT|INNER|BEGIN|DO)$/i

type Node = string | Group
interface Group {
  name: string
  children: Node[]
}

function parse(sql: string): Group {
  const root: Group = { name: '', children: [] }
  const open = [root]
  for (const [token] of sql.matchAll(TOKEN)) {
    const children = open.at(-1)?.children ?? []
    if (/^(\s|--|\/\*)/.test(token)) continue
    if (token === '(') {
      const last = children.at(-1)
      const isCall = typeof last === 'string' && /^[a-z_]\w*$/i.test(last) && !ENDS.test(last)
      const group: Group = { name: isCall ? last : '', children: [] }
      if (isCall) children.pop()
      children.push(group)
      open.push(group)
    } else if (token === ')') {
      if (open.length > 1) open.pop()
    } else children.push(token)
  }
  return root
}

const textOf = (node: Node): string =>
  typeof node === 'string' ? node : `${node.name}(${node.children.map(textOf).join(' ')})`

/** Whether an operand is a value as it was bound, not cast: alone, or in parentheses that are no query. */
function isBound(node: Node | undefined): boolean {
  if (node === undefined) return true
  if (typeof node === 'string') return /^\?\d*$/.test(node)
  return node.name === '' && !/^(SELECT|WITH)$/i.test(String(node.children[0])) && node.children.some(isBound)
}

function breachesIn({ children }: Group): string[] {
  const runs: Node[][] = [[]]
  for (const node of children) {
    if (typeof node === 'string' && ENDS.test(node)) runs.push([])
    else runs.at(-1)?.push(node)
  }
  const own = runs.flatMap((run) => {
    const operators = run.filter((node) => typeof node === 'string' && BITWISE.has(node))
    const isSum = run.some((node, at) => (node === '+' || node === '-') && at > 0 && !BITWISE.has(String(run[at - 1])))
    const isMixed = new Set(operators).size > 1 || (operators.length > 0 && isSum)
    const joinsValue = run.some(
      (node, at) => typeof node === 'string' && BITWISE.has(node) && (isBound(run[at - 1]) || isBound(run[at + 1])),
    )
    return isMixed || joinsValue ? [run.map(textOf).join(' ')] : []
  })
  return [...own, ...children.flatMap((node) => (typeof node === 'string' ? [] : breachesIn(node)))]
}

function breachesOf(path: string, text: string): string[] {
  const statements = path.endsWith('.sql') ? [text] : literalsOf(text)
  const file = path.replace(/^(\.\.\/)+(src|drizzle)\//, '')
  return statements.flatMap((sql) => breachesIn(parse(sql)).map((breach) => `${file}: ${breach}`))
}

describe('raw SQL', () => {
  it('has parentheses between bitwise operators, and casts what it shifts or joins', () => {
    expect(Object.keys(sources).length).toBeGreaterThan(200)
    expect(Object.keys(sources)).toContain('../../../drizzle/0000_initial.sql')
    expect(Object.entries(sources).flatMap(([path, text]) => breachesOf(path, text))).toEqual([])
  })

  /** As a source file; `$[…]` is an interpolation. */
  const wrap = (sql: string) => {
    const text = sql.replaceAll(/\$\[(.*?)\]/g, (_, value: string) => `\${${value}}`)
    return `const a = "it's" // don't\nconst b = /['\`]/.test(c)\nexport const d = sql\`${text}\`\n`
  }

  it.each([
    ['SELECT (CAST($[slot] AS INTEGER) << 53 | $[block] << 12)'],
    ['CAST($[slot] AS INTEGER) << 53 | 4095'],
    ['SELECT high << 12 | 4095 FROM span'],
    ['a & b >> 3'],
    ['a >> b << 3'],
    ['id << 12 + 1'],
    ['id - 1 | 7'],
    ['id & 7 - 1'],
    ['$[slot] << 53'],
    ['rowid | $[id]'],
    ['rowid & ($[mask])'],
    ['rowid & ($[mask] + 1)'],
    ['x = y AND $[inner(sql`a | b << 1`)]'],
    ["SELECT printf('%d', a | b & c) FROM t"],
  ])('is refused in TypeScript: %s', (sql) => {
    expect(breachesOf('../../../src/a.ts', wrap(sql))).not.toEqual([])
  })

  it.each([
    ['CREATE TRIGGER t AFTER INSERT ON a BEGIN SELECT slot << 53 | new.id FROM companies; END;'],
    ["UPDATE a SET b = '|' || c | d & e;"],
    ['UPDATE a SET b = c | ?1;'],
    ['SELECT a << ? FROM b;'],
  ])('is refused in a migration: %s', (sql) => {
    expect(breachesOf('../../../drizzle/9999_next.sql', sql)).not.toEqual([])
  })

  it.each([
    ['((CAST($[slot] AS INTEGER) << 53) | CAST($[id] AS INTEGER))'],
    ["a || '|' || b || char(31) -- a | b << 1"],
    ["value ->> 'a', value -> 1"],
    ['(SELECT $[token] FROM t) || $[gram] || 1'],
    ['a | b | c'],
    ['x | -1, (id & 7) - 1'],
    ['id + 1, id | 1, new.id >> 12 = block AND a - 1 = b'],
  ])('is accepted: %s', (sql) => {
    expect(breachesOf('../../../src/a.ts', wrap(sql))).toEqual([])
    if (!sql.includes('$[')) expect(breachesOf('../../../drizzle/9999_next.sql', sql)).toEqual([])
  })
})
