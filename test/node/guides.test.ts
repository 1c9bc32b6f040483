import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { readGuides } from '../../src/site/reference/build.ts'
import { GUIDES, promiseOf, titleOf } from '../../src/site/reference/page/guides.ts'
import { slugOf } from '../../src/site/reference/page/html.ts'

const ROOT = join(import.meta.dirname, '../..')
const GUIDE_LINES = 150
const README_LINES = 220

const guides = await readGuides()
const readme = readFileSync(join(ROOT, 'README.md'), 'utf8')

describe('the guides', () => {
  it('are those that the pages list', () => {
    expect(guides.map(({ name }) => name).toSorted()).toEqual(Object.values(GUIDES).flat().toSorted())
  })

  it.each(guides)('$name begins with what its reader gets, has an example, and is short', (guide) => {
    expect(titleOf(guide)).not.toBe('')
    expect(promiseOf(guide)).toMatch(/^(You|Every) /)
    expect(guide.text.split('\n').length - 1).toBeLessThanOrEqual(GUIDE_LINES)
  })
})

describe('links', () => {
  const idsIn = (html: string) => [...html.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id)
  const headingsOf = (text: string) => [...text.matchAll(/^#{2,3} (.+)$/gm)].map(([, title = '']) => slugOf(title))
  const page = readFileSync(join(ROOT, '.assets/index.html'), 'utf8')

  /** Whether an address within a Markdown file of a folder leads somewhere. Other hosts are not called. */
  function leads(address: string, folder: string, own: string): boolean {
    const [path = '', anchor] = address.split('#')
    if (/^https?:/.test(address)) return URL.canParse(address)
    if (path.startsWith('/')) return isServed(path, anchor)
    const text = path === '' ? own : existsSync(join(folder, path)) ? readFileSync(join(folder, path), 'utf8') : null
    return text !== null && (anchor === undefined || headingsOf(text).includes(anchor))
  }

  function isServed(path: string, anchor?: string): boolean {
    if (path === '/') return anchor === undefined || idsIn(page).includes(anchor)
    const file = path.replace(/^\/api\/v1\//, '/')
    return ['', '.html'].some((suffix) => existsSync(join(ROOT, '.assets', `${file}${suffix}`)))
  }

  it('of the README, the guides and the texts that are served lead somewhere', () => {
    const texts: [folder: string, name: string, text: string][] = [
      ['.', 'README.md', readme],
      ['src/client', 'README.md', readFileSync(join(ROOT, 'src/client/README.md'), 'utf8')],
      ['.', 'llms.txt', readFileSync(join(ROOT, '.assets/llms.txt'), 'utf8')],
      ...guides.map(({ name, text }): [string, string, string] => ['src/site/guides', `${name}.md`, text]),
    ]
    const dead = texts.flatMap(([folder, name, text]) =>
      [...text.replaceAll(/^```[\s\S]*?^```$/gm, '').matchAll(/\]\(([^)\s]+)\)/g)]
        .map(([, address = '']) => address)
        .filter((address) => !leads(address, join(ROOT, folder), text))
        .map((address) => `${folder}/${name}: ${address}`),
    )
    expect(dead).toEqual([])
  })

  it('are to files that exist, where a path of the repository is named', () => {
    const texts = [readme, ...guides.map(({ text }) => text)]
    const named = texts.flatMap((text) => text.match(/(?<=`)(?:test|src|drizzle)\/[\w./-]+(?=`)/g) ?? [])
    expect(named.length).toBeGreaterThan(30)
    const exists = (path: string) => {
      const [folder, name] = [dirname(join(ROOT, path)), basename(path)]
      return existsSync(folder) && readdirSync(folder).some((one) => one.startsWith(name))
    }
    expect([...new Set(named)].filter((path) => !exists(path))).toEqual([])
  })

  it('of the reference and the guides’ pages lead somewhere', () => {
    const pages = ['index', 'guides/index', ...guides.map(({ name }) => `guides/${name}`)]
    const dead = pages.flatMap((name) => {
      const html = readFileSync(join(ROOT, '.assets', `${name}.html`), 'utf8')
      const base = new URL(`http://page/${name.replace(/index$/, '')}`)
      return [...html.matchAll(/ href="([^"]+)"/g)].flatMap(([, address = '']) => {
        const url = new URL(address, base)
        if (url.host !== base.host) return []
        const anchor = url.hash.slice(1)
        const isHere = url.pathname === base.pathname && (anchor === '' || idsIn(html).includes(anchor))
        return isHere || isServed(url.pathname, anchor || undefined) ? [] : [`${name}: ${address}`]
      })
    })
    expect(dead).toEqual([])
  })
})

it('The README is short', () => {
  expect(readme.split('\n').length - 1).toBeLessThanOrEqual(README_LINES)
})
