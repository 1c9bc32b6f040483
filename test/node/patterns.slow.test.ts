import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseSync } from 'vite'
import { describe, expect, it } from 'vitest'
import { regexes } from 'zod/mini'

// The engine without native helpers: the same on every machine.
process.env.RECHECK_SYNC_BACKEND = 'pure'
const { checkSync } = await import('recheck')

const SOURCES = fileURLToPath(new URL('../../src/', import.meta.url))

interface Pattern {
  place: string
  source: string
  flags: string
}

/** Every regular expression literal of a source text, and the places that build one at run time. */
function findPatterns(file: string, text: string): { patterns: Pattern[]; built: string[] } {
  const patterns: Pattern[] = []
  const built: string[] = []
  const place = (start: number) => `${file}:${text.slice(0, start).split('\n').length}`
  JSON.stringify(parseSync(file, text).program, (_key, node) => {
    if (node?.type === 'Literal' && node.regex) {
      patterns.push({ place: place(node.start), source: node.regex.pattern, flags: node.regex.flags })
    }
    const isCall = node?.type === 'NewExpression' || node?.type === 'CallExpression'
    if (isCall && node.callee?.name === 'RegExp') built.push(place(node.start))
    return typeof node === 'bigint' ? String(node) : node
  })
  return { patterns, built }
}

/** All sources but the simulators, the commands and the build of the documentation, which read what their user wrote. */
const files = readdirSync(SOURCES, { recursive: true, encoding: 'utf8' }).filter(
  (name) => /\.[jt]s$/.test(name) && !/^(?:simulators|cli|site\/reference)\//.test(name),
)
const found = files.map((name) => findPatterns(name, readFileSync(`${SOURCES}${name}`, 'utf8')))

/** Zod's expressions that validate bodies, queries and seeds. */
const OF_ZOD: Pattern[] = Object.entries({
  email: regexes.email,
  uuid: regexes.uuid(),
  date: regexes.date,
  datetime: regexes.datetime({ offset: true }),
}).map(([name, { source, flags }]) => ({ place: `zod ${name}`, source, flags }))

/** Steps alone decide, of which a linear pattern stays far below the limit: by time, a busy machine makes it look slow. */
const LIMITS = { timeout: null, incubationTimeout: null, attackTimeout: null, attackLimit: 100_000_000 }

/** Null for a pattern whose matching takes at most linearly many steps, else an input that takes more. */
function findSlowInput({ source, flags }: Pattern): string | null {
  const verdict = checkSync(source, flags, LIMITS)
  if (verdict.status === 'safe') return null
  return verdict.status === 'vulnerable' ? verdict.attack.pattern : `not checked: ${verdict.error.kind}`
}

describe('regular expressions of the sources', () => {
  it('take at most linearly many steps on any input', () => {
    const patterns = [...found.flatMap((each) => each.patterns), ...OF_ZOD]
    expect(patterns.length).toBeGreaterThan(80)
    const slow = patterns.flatMap((pattern) => {
      const input = findSlowInput(pattern)
      return input === null ? [] : [`${pattern.place} /${pattern.source}/${pattern.flags}: ${input}`]
    })
    expect(slow).toEqual([])
  })

  it('are all literals, so that none escapes the check, but those of secrets and of the paths of a batch', () => {
    const files = found.flatMap((each) => each.built).map((place) => place.split(':')[0])
    expect(files.sort()).toEqual(['delivery/accounting/transport.ts', 'resources/batch/routes.ts'])
    const source = '^/orders/(?<id>[^/?#]+)/payments/(?<payment_id>[^/?#]+)$'
    expect(findSlowInput({ place: '', source, flags: '' })).toBeNull()
  })

  it.each([
    ['a lookahead at every position', 'const a = /(?=[\\w.]*\\d)[\\w.]{24,}/g'],
    ['a run that is searched from each of its ends', 'const a = text.replace(/\\/+$/, "")'],
    ['two ways to split a run', 'export const a = /^(a|aa)+$/'],
  ])('would be refused with %s', (_name, text) => {
    const [pattern] = findPatterns('planted.ts', text).patterns
    expect(pattern && findSlowInput(pattern)).toMatch(/repeat/)
  })
})
