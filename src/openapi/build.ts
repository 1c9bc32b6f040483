import { execFileSync } from 'node:child_process'
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { contracts } from '../contracts.ts'
import { describeApi } from './openapi.ts'
import { tags } from './text.ts'

/*
 * npm run docs            writes src/openapi/openapi.json and the types of src/client made from it
 * npm run docs -- --check fails when one of these files differs from what the contracts give
 * npm run build:assets    fills .assets/ with the description and its page, for the Worker's static assets
 */
const ROOT = join(import.meta.dirname, '../..')
/** Installed beside the TypeScript 5 that it needs. */
const TYPES_GENERATOR = join(ROOT, 'test/contract/node_modules/openapi-typescript/bin/cli.js')
const PAGE_DIR = join(import.meta.dirname, 'page')
const ASSETS_DIR = join(ROOT, '.assets')

/** What the page needs of swagger-ui-dist and the names it gets, with the licences that must go along. */
const VIEWER_FILES = {
  'swagger-ui-bundle.js': 'swagger-ui-bundle.js',
  'swagger-ui-bundle.js.LICENSE.txt': 'swagger-ui-bundle.js.LICENSE.txt',
  'swagger-ui.css': 'swagger-ui.css',
  LICENSE: 'swagger-ui.LICENSE.txt',
  NOTICE: 'swagger-ui.NOTICE.txt',
}

const TAG_LINKS_PLACE = '<!-- links to the tags -->'

const document = `${JSON.stringify(describeApi(contracts), null, 2)}\n`

const [option, ...others] = process.argv.slice(2)
if (others.length > 0) fail('Give at most one option: --check or --assets.')
else if (option === undefined) await writeGenerated()
else if (option === '--check') await checkGenerated()
else if (option === '--assets') await buildAssets()
else fail(`There is no option ${option}.`)

async function writeGenerated(): Promise<void> {
  for (const [path, content] of generateFiles()) await writeFile(join(ROOT, path), content)
}

async function checkGenerated(): Promise<void> {
  for (const [path, content] of generateFiles()) {
    const committed = await readFile(join(ROOT, path), 'utf8').catch(() => '')
    if (committed !== content) fail(`${path} is out of date: run \`npm run docs\`.`)
  }
}

/** Committed files and their content. */
function generateFiles(): [path: string, content: string][] {
  const types = execFileSync(process.execPath, [TYPES_GENERATOR], { input: document, encoding: 'utf8' })
  return [
    ['src/openapi/openapi.json', document],
    ['src/client/schema.d.ts', types],
  ]
}

/** Files are replaced one by one, so that a server on this folder never finds it empty. */
async function buildAssets(): Promise<void> {
  const viewerDir = dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json'))
  const pageFiles = await readdir(PAGE_DIR)
  await mkdir(ASSETS_DIR, { recursive: true })

  for (const name of pageFiles) {
    const text = await readFile(join(PAGE_DIR, name), 'utf8')
    await writeFile(join(ASSETS_DIR, name), text.replace(TAG_LINKS_PLACE, linkTags()))
  }
  for (const [name, target] of Object.entries(VIEWER_FILES)) {
    const text = await readFile(join(viewerDir, name), 'utf8')
    // The source maps are not copied, so nothing may point to them.
    await writeFile(join(ASSETS_DIR, target), text.replace(/\n?(?:\/\/|\/\*)# sourceMappingURL=[^#]*$/, '\n'))
  }
  await writeFile(join(ASSETS_DIR, 'openapi.json'), document)

  const current = new Set([...pageFiles, ...Object.values(VIEWER_FILES), 'openapi.json'])
  const stale = (await readdir(ASSETS_DIR)).filter((name) => !current.has(name))
  await Promise.all(stale.map((name) => rm(join(ASSETS_DIR, name), { recursive: true })))
}

/** The viewer gives the heading of each tag this id. */
function linkTags(): string {
  const names = Object.keys(tags).filter((tag) => contracts.some((contract) => contract.tag === tag))
  return names.map((name) => `<a href="#operations-tag-${name}">${name}</a>`).join('\n      ')
}

function fail(message: string): void {
  console.error(message)
  process.exitCode = 1
}
