import { execFileSync } from 'node:child_process'
import { globSync } from 'node:fs'
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { basename, join, relative } from 'node:path'
import { build } from 'esbuild'
import { describeRetryRules } from '../../client/errors.ts'
import { COMPANY_LIMIT_MS, DATABASE_LIMIT_MS, LIMIT } from '../../kernel/gate/limits.ts'
import { seedFile } from '../../operation/copies/seed/file.ts'
import { credentialForms } from '../../operation/copies/seed/integrations-file.ts'
import { describeAdminApi, writeDocument, writeLlmsText, writePostman } from './document.ts'
import { asObject, toJson } from './json.ts'
import { type Guide, guideIndex, renderGuidePage } from './page/guides.ts'
import { renderPage } from './page/page.ts'
import { type Published, publishedFrom, readContracts, type SliceModule } from './reference.ts'
import { SchemaWriter } from './schema.ts'

const ROOT = join(import.meta.dirname, '../../..')
/** The generator is installed beside the TypeScript 5 that it needs. */
const TYPES_GENERATOR = join(ROOT, 'test/contract/node_modules/openapi-typescript/bin/cli.js')
const NO_DEPLOYMENT =
  'The top level of wrangler.toml is for development on this machine: deploy with --env staging or --env production.'
const SRC = join(ROOT, 'src')
const GUIDES_DIR = join(ROOT, 'src/site/guides')
const ASSETS_DIR = join(ROOT, '.assets')

/*
 * npm run docs             writes the description, the types and retry rules of src/client, and the schema of seed files
 * npm run docs -- --check  fails where one of these files is out of date
 * npm run lint:api         (--lint) fails on any problem or hint of two linters
 * npm run build:assets     (--assets) fills .assets/, the Worker's static assets, with the description and what is made from it
 * npm run build:development  the same (--assets --development), but for a deployment
 */
if (import.meta.main) {
  const option = process.argv.slice(2).join(' ')
  if (option === '--assets') await buildAssets()
  else if (option === '--assets --development') {
    // Wrangler sets this variable for its custom build.
    if (['deploy', 'versions upload'].includes(process.env.WRANGLER_COMMAND ?? '')) fail(NO_DEPLOYMENT)
    else await buildAssets()
  } else if (option === '--lint') {
    const { integration, administration } = await generateDocuments()
    for (const document of [integration, administration]) (await lintDocument(document)).forEach(fail)
  } else if (option === '' || option === '--check') await generateFiles(option === '--check')
  else fail(`Unknown option ${option}`)
}

async function generateDocuments() {
  const introduction = (await readFile(join(import.meta.dirname, 'introduction.md'), 'utf8'))
    .replace('{{requests}}', String(LIMIT))
    .replace('{{database_seconds}}', String(DATABASE_LIMIT_MS / 1000))
    .replace('{{company_seconds}}', String(COMPANY_LIMIT_MS / 1000))
    .replace('{{retry_rules}}', describeRetryRules())
  const reference = readContracts(await loadPublished('resources'), introduction)
  const administration = toJson(describeAdminApi(await loadPublished('operation/admin')))
  return { reference, integration: toJson(writeDocument(reference)), administration }
}

/** Loads what the slices below a folder publish: a contract is described without being listed anywhere. */
export async function loadPublished(folder: 'resources' | 'operation/admin'): Promise<Published> {
  const files = globSync(`${folder}/*/{contract,documentation}.ts`, { cwd: SRC }).sort()
  return publishedFrom(await Promise.all(files.map((file): Promise<SliceModule> => import(join(SRC, file)))))
}

function describeSeedFile(): string {
  const writer = new SchemaWriter()
  const root = writer.write(seedFile, 'input')
  const kinds = asObject(asObject(asObject(root.properties).integrations).properties)
  for (const [kind, form] of Object.entries(credentialForms)) {
    const { credentials } = asObject(asObject(kinds[kind]).properties)
    asObject(credentials).anyOf = [writer.write(form, 'input'), { maxProperties: 0 }]
  }
  const schema = {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'A seed file',
    description: 'The data of one company, for `npm run seed`. Every list and most fields may be left out.',
    ...root,
    $defs: Object.fromEntries(writer.components),
  }
  return toJson(schema).replaceAll('#/components/schemas/', '#/$defs/')
}

async function describeClient(): Promise<string> {
  const text = await readFile(join(ROOT, 'src/client/README.md'), 'utf8')
  return text.replace(/(<!-- retry rules, [^>]*-->\n).*?(\n<!-- end -->)/s, `$1${describeRetryRules()}$2`)
}

async function generateFiles(isCheck: boolean): Promise<void> {
  const { integration: document } = await generateDocuments()
  const types = execFileSync(process.execPath, [TYPES_GENERATOR], { input: document, encoding: 'utf8' })
  const files = {
    'src/site/reference/openapi.json': document,
    'src/client/schema.d.ts': types,
    'src/client/README.md': await describeClient(),
    'src/cli/seed-file.schema.json': describeSeedFile(),
  }
  for (const [path, content] of Object.entries(files)) {
    if (!isCheck) await writeFile(join(ROOT, path), content)
    else if ((await readFile(join(ROOT, path), 'utf8').catch(() => '')) !== content) {
      fail(`${path} is out of date: run \`npm run docs\`.`)
    }
  }
}

export async function lintDocument(source: string): Promise<string[]> {
  // Loaded on demand, since these modules are slow to load.
  const { createConfig, lintFromString } = await import('@redocly/openapi-core')
  const { default: spectralCore } = await import('@stoplight/spectral-core')
  const { default: spectralRulesets } = await import('@stoplight/spectral-rulesets')

  // `by-external-id` is no id of an order: the first segments decide, and a test sends each path.
  const rules = { 'no-ambiguous-paths': 'off' } as const
  const config = await createConfig({ extends: ['recommended'], rules })
  const ofRedocly = await lintFromString({ source, absoluteRef: 'openapi.json', config })
  const spectral = new spectralCore.Spectral()
  spectral.setRuleset(new spectralCore.Ruleset({ extends: [[spectralRulesets.oas, 'recommended']] }))
  const ofSpectral = await spectral.run(source)
  return [
    ...ofRedocly.map(({ ruleId, message, location }) => `redocly ${ruleId} ${location[0]?.pointer ?? ''}: ${message}`),
    ...ofSpectral.map(({ code, message, path }) => `spectral ${code} ${path.join('/')}: ${message}`),
  ]
}

/** Replaces the files one by one, so that a running server never sees an empty folder. */
async function buildAssets(): Promise<void> {
  const { reference, integration, administration } = await generateDocuments()
  const guides = await readGuides()
  const assets: Record<string, string> = {
    'openapi.json': integration,
    'admin-openapi.json': administration,
    'index.html': renderPage(reference, guides),
    'llms.txt': writeLlmsText(reference, guides),
    'postman_collection.json': writePostman(reference),
  }
  for (const guide of [...guides, guideIndex(guides)]) {
    assets[`guides/${guide.name}.html`] = renderGuidePage(guide, guides)
    assets[`guides/${guide.name}.md`] = guide.text
  }
  Object.assign(assets, await bundlePages())

  await mkdir(join(ASSETS_DIR, 'guides'), { recursive: true })
  for (const [name, content] of Object.entries(assets)) await writeFile(join(ASSETS_DIR, name), content)
  for (const entry of await readdir(ASSETS_DIR, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name)
    if (entry.isFile() && !(relative(ASSETS_DIR, path).replaceAll('\\', '/') in assets)) await rm(path)
  }
}

export async function readGuides(): Promise<Guide[]> {
  const names = (await readdir(GUIDES_DIR)).filter((name) => name.endsWith('.md'))
  return Promise.all(
    names.map(async (name) => ({ name: basename(name, '.md'), text: await readFile(join(GUIDES_DIR, name), 'utf8') })),
  )
}

/** The files of both pages: the styles and the script of the settings bundled with their imports, the others as they are. */
async function bundlePages(): Promise<Record<string, string>> {
  const { outputFiles } = await build({
    absWorkingDir: import.meta.dirname,
    entryPoints: ['assets/_headers', 'assets/favicon.svg', './assets/page.*', '../settings/settings.*'],
    entryNames: '[name]',
    loader: { '.html': 'copy', '.js': 'copy', '.svg': 'copy', '': 'copy' },
    bundle: true,
    minify: true,
    format: 'esm',
    target: 'es2022',
    // Otherwise esbuild reads the nearest tsconfig.json, whose target is the Worker's.
    tsconfigRaw: {},
    write: false,
    outdir: ASSETS_DIR,
  })
  return Object.fromEntries(outputFiles.map(({ path, text }) => [basename(path), text]))
}

function fail(message: string): void {
  console.error(message)
  process.exitCode = 1
}
