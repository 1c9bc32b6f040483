import { execFile } from 'node:child_process'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { gzipSync } from 'node:zlib'
import { beforeAll, describe, expect, it } from 'vitest'
import { lintDocument } from '../../src/site/reference/build.ts'
import { asObject, type JsonObject } from '../../src/site/reference/json.ts'
import committed from '../../src/site/reference/openapi.json' with { type: 'json' }

const ROOT = join(import.meta.dirname, '../..')
const run = promisify(execFile)

/** Runs the build as npm does: with the Node of this project. */
const build = (...options: string[]) => run('npx', ['node', 'src/site/reference/build.ts', ...options], { cwd: ROOT })

describe('the linters', () => {
  it('report no problem of the committed description', async () => {
    await expect(build('--lint')).resolves.toMatchObject({ stderr: '' })
  })

  it('both report a missing description, a wrong example, an unused component and an unknown type', async () => {
    const document = structuredClone<JsonObject>(committed)
    delete firstResponse(document).description
    asObject(asObject(firstResponse(document).content)['application/json']).example = { data: 1 }
    schemasOf(document).Unused = { type: 'string' }
    schemasOf(document).EmailThread = { type: 'text' }
    const problems = (await lintDocument(JSON.stringify(document))).map((problem) => problem.replaceAll('~1', '/'))
    const response = 'paths//clients/get/responses/200'
    for (const linter of ['redocly', 'spectral']) {
      expect(problems).toContainEqual(expect.stringMatching(`^${linter} .*${response}: .*description`))
      expect(problems).toContainEqual(
        expect.stringMatching(`^${linter} .*example.* .*${response}/content/application/json`),
      )
      expect(problems).toContainEqual(expect.stringMatching(`^${linter} .*components/schemas/Unused`))
      expect(problems).toContainEqual(expect.stringMatching(`^${linter} .*components/schemas/EmailThread/type`))
    }
  })
})

describe('the build', () => {
  it('finds the committed files up to date and fails for an unknown option', async () => {
    await expect(build('--check')).resolves.toMatchObject({ stderr: '' })
    await expect(build('--chek')).rejects.toMatchObject({ code: 1, stderr: 'Unknown option --chek\n' })
  })
})

describe('the page', () => {
  const file = (name: string) => join(ROOT, '.assets', name)
  const read = (name: string) => readFile(file(name), 'utf8')
  beforeAll(() => build('--assets'))

  it('has every file that it requests, from its own origin', async () => {
    const html = await read('index.html')
    const requested = [...html.matchAll(/(?:src|href)="(?!https:)([^"#]+)"/g)].map(([, address]) => address ?? '')
    expect(requested.length).toBeGreaterThanOrEqual(6)
    // Links to guides are held by `guides.test.ts`.
    const files = requested.filter((address) => address !== 'api/v1/openapi.json' && !address.startsWith('/guides/'))
    for (const address of files) {
      expect((await stat(file(address))).size).toBeGreaterThan(0)
    }
    for (const name of ['page.js', 'page.css', 'favicon.svg']) {
      expect((await read(name)).replace('http://www.w3.org/2000/svg', '')).not.toMatch(/https?:\/\//)
    }
  })

  it('is complete without its script: every operation, guide and schema has a section with a link', async () => {
    const html = await read('index.html')
    const sections = [...html.matchAll(/<section id="([^"]+)"/g)].map(([, id = '']) => id)
    const links = [...html.matchAll(/<a href="#([^"]+)"/g)].map(([, id = '']) => id)
    expect(new Set(sections).size).toBe(sections.length)
    const operations = Object.values(asObject(committed.paths)).flatMap((item) => Object.values(asObject(item)))
    expect(operations.map((operation) => asObject(operation).operationId)).toEqual(
      sections.filter((id) => html.includes(`<section id="${id}" class="operation"`)),
    )
    const titles = [...committed.info.description.matchAll(/^## (.+)$/gm)].map(([, title]) => title)
    for (const title of titles) expect(html).toContain(`<h2>${title}</h2>`)
    for (const name of ['Client', 'Project', 'Invoice', 'EmailThread', 'ErrorResponse'])
      expect(links).toContain(`object-${name}`)
    for (const { name } of committed.tags) expect(sections).toContain(`tag-${name.toLowerCase()}`)
  })

  it('weighs at most 100 KiB compressed, with its script and style', async () => {
    const sizes = await Promise.all(
      ['index.html', 'page.js', 'page.css'].map(async (name) => gzipSync(await read(name)).byteLength),
    )
    expect(sizes.reduce((sum, size) => sum + size)).toBeLessThan(100 * 1024)
  })

  it('has scripts and styles in files and allows no others, as the settings do', async () => {
    for (const name of ['index.html', 'settings.html']) {
      expect(await read(name)).not.toMatch(/<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+="/)
    }
    const headers = await read('_headers')
    const policy = /Content-Security-Policy: (.*)/.exec(headers)?.[1] ?? ''
    const sources = Object.fromEntries(policy.split('; ').map((part) => [part.split(' ')[0], part.split(' ').slice(1)]))
    expect(sources).toMatchObject({
      'default-src': ["'none'"],
      'script-src': ["'self'"],
      'style-src': ["'self'"],
      'connect-src': ["'self'"],
      'frame-ancestors': ["'none'"],
    })
    expect(policy).not.toContain('unsafe')
    expect(headers).toContain('X-Content-Type-Options: nosniff')
  })

  it('has settings with a script of at most 30 KiB, whose files allow nothing inline and no other origin', async () => {
    const html = await read('settings.html')
    const requested = [...html.matchAll(/(?:src|href)="\/([\w.]+\.\w+)"/g)].map(([, name]) => name)
    expect(requested).toEqual(['favicon.svg', 'settings.css', 'settings.js'])
    for (const name of ['settings.js', 'settings.css']) {
      const text = await read(name)
      expect(text.length).toBeLessThan(30 * 1024)
      expect(text.replaceAll(/http:\/\/www\.w3\.org\/2000\/svg|https:\/\/(?![\w$])/g, '')).not.toMatch(/https?:\/\//)
    }
    expect(await read('_headers')).toContain(
      "/settings*\n  Content-Security-Policy: require-trusted-types-for 'script'",
    )
  })

  it('comes with the description and its other forms, and nothing else', async () => {
    expect(JSON.parse(await read('openapi.json'))).toEqual(committed)
    expect((await readdir(file('.'))).sort()).toEqual([
      '_headers',
      'admin-openapi.json',
      'favicon.svg',
      'guides',
      'index.html',
      'llms.txt',
      'openapi.json',
      'page.css',
      'page.js',
      'postman_collection.json',
      'settings.css',
      'settings.html',
      'settings.js',
    ])
  })
})

function firstResponse(document: JsonObject): JsonObject {
  const { responses } = asObject(asObject(asObject(document.paths)['/clients']).get)
  return asObject(asObject(responses)['200'])
}

const schemasOf = (document: JsonObject) => asObject(asObject(document.components).schemas)
