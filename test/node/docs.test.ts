import { execFile } from 'node:child_process'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, it } from 'vitest'
import { contracts } from '../../src/contracts.ts'
import { asObject, type JsonObject } from '../../src/openapi/json.ts'
import { lintDescription } from '../../src/openapi/lint.ts'
import { describeApi } from '../../src/openapi/openapi.ts'

const ROOT = join(import.meta.dirname, '../..')
const run = promisify(execFile)

/** Runs the build as npm does: with the project's own Node. */
const build = (...options: string[]) => run('npx', ['node', 'src/openapi/build.ts', ...options], { cwd: ROOT })

describe('the description under the linters', () => {
  it('has no problem', async () => {
    expect(await lintDescription(describeApi(contracts))).toEqual([])
  })

  it.each<[string, (document: JsonObject) => void, string[]]>([
    [
      'an answer without a description',
      (document) => delete firstResponse(document).description,
      ['redocly', 'spectral'],
    ],
    ['an example that does not fit', (document) => setExample(document, { data: 1 }), ['redocly', 'spectral']],
    [
      'a part that nothing uses',
      (document) => (schemasOf(document).Unused = { type: 'string' }),
      ['redocly', 'spectral'],
    ],
    [
      'a type that does not exist',
      (document) => (schemasOf(document).Client = { type: 'text' }),
      ['redocly', 'spectral'],
    ],
  ])('%s is found by both', async (_name, damage, linters) => {
    const document = describeApi(contracts)
    damage(document)
    const problems = await lintDescription(document)
    for (const linter of linters) expect(problems.filter((problem) => problem.startsWith(linter))).not.toEqual([])
  })
})

describe('the committed file', () => {
  it('is up to date, and the build refuses what it does not know', async () => {
    await expect(build('--check')).resolves.toMatchObject({ stderr: '' })
    await expect(build('--chek')).rejects.toMatchObject({ code: 1, stderr: 'There is no option --chek.\n' })
  })
})

describe('the page', () => {
  const file = (name: string) => join(ROOT, '.assets', name)
  const read = (name: string) => readFile(file(name), 'utf8')
  beforeAll(() => build('--assets'))

  it('has every file it asks for, from its own origin', async () => {
    const html = await read('index.html')
    const asked = [...html.matchAll(/(?:src|href)="([^"#]+)"/g)].map(([, address]) => address ?? '')
    expect(asked.length).toBeGreaterThanOrEqual(6)
    for (const address of asked.filter((address) => address !== 'api/v1/openapi.json')) {
      expect((await stat(file(address))).size).toBeGreaterThan(0)
    }
    for (const name of ['index.html', 'init.js', 'page.css', 'favicon.svg']) {
      expect((await read(name)).replace('http://www.w3.org/2000/svg', '')).not.toMatch(/https?:\/\//)
    }
    expect(await read('swagger-ui.css')).not.toMatch(/@import|url\(["']?https?:/)
    for (const name of ['swagger-ui-bundle.js', 'swagger-ui.css']) {
      expect(await read(name)).not.toContain('sourceMappingURL')
    }
  })

  it('links to every group of operations', async () => {
    const html = await read('index.html')
    for (const { tag } of contracts) expect(html).toContain(`<a href="#operations-tag-${tag}">${tag}</a>`)
    expect(html).not.toContain('links to the tags')
  })

  it('keeps scripts and styles in files and allows no others', async () => {
    const html = await read('index.html')
    expect(html).not.toMatch(/<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=/)
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

  it('serves the description, carries the licences of the viewer and nothing that it does not need', async () => {
    expect(JSON.parse(await read('openapi.json'))).toEqual(JSON.parse(JSON.stringify(describeApi(contracts))))
    expect((await readdir(file('.'))).sort()).toEqual([
      '_headers',
      'favicon.svg',
      'index.html',
      'init.js',
      'openapi.json',
      'page.css',
      'swagger-ui-bundle.js',
      'swagger-ui-bundle.js.LICENSE.txt',
      'swagger-ui.LICENSE.txt',
      'swagger-ui.NOTICE.txt',
      'swagger-ui.css',
    ])
  })
})

function firstResponse(document: JsonObject): JsonObject {
  return asObject(asObject(listOperation(document).responses)['200'])
}

function setExample(document: JsonObject, example: JsonObject): void {
  asObject(asObject(firstResponse(document).content)['application/json']).example = example
}

function listOperation(document: JsonObject): JsonObject {
  return asObject(asObject(asObject(document.paths)['/clients']).get)
}

function schemasOf(document: JsonObject): JsonObject {
  return asObject(asObject(document.components).schemas)
}
