import { createReadStream } from 'node:fs'
import { readFile } from 'node:fs/promises'
import * as jsonc from 'jsonc-parser'
import * as z from 'zod/mini'
import { ApiError } from '../client/errors.ts'
import { describeSyntax } from '../kernel/http/messages.ts'
import { readCompany } from '../operation/admin/companies/contract.ts'
import { createImport, importEmailThread, readImport } from '../operation/admin/transfers/contract.ts'
import { type SeedFile, type SeedInput, seedFile } from '../operation/copies/seed/file.ts'
import { countFile, type Difference } from '../operation/copies/seed/load.ts'
import { deriveRows, findDuplicates, NAMES, TABLES } from '../operation/copies/seed/rows.ts'
import { type AdminApi, linesOf } from './admin-api.ts'
import { CommandError, resolvePath } from './command.ts'
import { plural } from './operator.ts'
import { readExport, splitSeedFile, threadOf } from './split-file.ts'

/** Limits the listed problems of a file, so that its one line stays readable. */
const ISSUES_MAX = 100

/** The content of a valid file, as it is imported. @throws CommandError when it is absent, not JSON or not valid */
export async function readSeedFile(path: string, name: string): Promise<SeedInput> {
  const read = readFile(path).then((bytes) => new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  const text = await read.catch((error) => throwUnreadable(name, error))
  const value: SeedInput = await Promise.try(JSON.parse, text).catch((error: unknown) => {
    // Its message quotes the file, which may hold credentials.
    throw new CommandError(`${name}: ${describeSyntaxError(text, error)}`)
  })
  checkSeed(value, name, text)
  return value
}

const UNREADABLE: Record<string, string> = {
  ENOENT: 'no such file',
  ERR_ENCODING_INVALID_ENCODED_DATA: 'is not UTF-8: save it as UTF-8',
}

/** For `catch`. Explains why a file cannot be read, or why `split-file.ts` refuses it with a `RangeError`. */
function throwUnreadable(name: string, error: unknown): never {
  const code = error instanceof Error && 'code' in error ? error.code : null
  if (typeof code === 'string') throw new CommandError(`${name}: ${UNREADABLE[code] ?? `cannot be read (${code})`}.`)
  throw error instanceof RangeError ? new CommandError(`${name}: ${error.message}.`) : error
}

/** `text` gives the issues their lines and columns. @throws CommandError with the first 100 issues */
export function checkSeed(value: unknown, name: string, text = ''): SeedFile {
  const parsed = seedFile.safeParse(value)
  if (parsed.success) return parsed.data
  const issues = parsed.error.issues.flatMap(({ message, ...issue }) => {
    const path = issue.path as (string | number)[]
    if (issue.code !== 'unrecognized_keys') return [{ path, message }]
    return issue.keys.map((key, index) => ({ path: [...path, key], message: message.split('\n')[index] ?? '' }))
  })
  const paths = issues.slice(0, ISSUES_MAX).map(({ path }) => path)
  const positions = locateValues(text, paths)
  const lines = issues.map(({ path, message }, index) => {
    const position = positions[index] ? ` (${positions[index]})` : ''
    return `${path.length === 0 ? 'the file' : `\`${z.core.toDotPath(path)}\``} ${message}${position}`
  })
  throw problems(name, lines)
}

function problems(name: string, issues: string[]): CommandError {
  const more = issues.length > ISSUES_MAX ? ` (and ${issues.length - ISSUES_MAX} more)` : ''
  return new CommandError(`${name}: ${issues.slice(0, ISSUES_MAX).join('; ')}${more}`)
}

/** Where and why JSON.parse fails, as a sentence. It quotes at most one character of the text. */
export function describeSyntaxError(text: string, error: unknown): string {
  // V8 names the place of some errors only.
  const problem = describeSyntax(error instanceof Error ? error.message.replace(/ \(line \d.*/s, '') : '')
  const [first] = parse(text).errors
  return `${describePosition(text, first?.offset ?? 0)} ${problem}.`
}

/** "line 3, column 5" of each path: of a member's name, else of the innermost value around it. */
export function locateValues(text: string, paths: (string | number)[][]): string[] {
  const { root, errors } = parse(text)
  if (!root || errors.length > 0) return []
  return paths.map((path) => {
    const ends = path.map((_, index) => path.length - index)
    const [node] = ends.flatMap((end) => jsonc.findNodeAtLocation(root, path.slice(0, end)) ?? [])
    const named = node?.parent?.type === 'property' ? node.parent : node
    return describePosition(text, named?.offset ?? 0)
  })
}

function parse(text: string) {
  const errors: jsonc.ParseError[] = []
  try {
    return { root: jsonc.parseTree(text, errors, { disallowComments: true }), errors }
  } catch {
    // It calls itself for each level of depth: the issues of a file that overflows its stack have no positions.
    return { root: undefined, errors }
  }
}

/** Lines and columns count from 1, columns in UTF-16 units, as editors do. */
function describePosition(text: string, offset: number): string {
  const before = text.slice(0, offset)
  return `line ${before.split('\n').length}, column ${offset - before.lastIndexOf('\n')}`
}

/**
 * Loads one company, part after part, and continues an interrupted import. It returns a summary and the rows that
 * differ and were not changed. @throws CommandError when the file is not valid or contradicts the database
 */
export async function importSeed(api: AdminApi, input: SeedInput, name: string, into_empty = false) {
  const file = checkSeed(input, name)
  const { hash, parts } = await Promise.try(splitSeedFile, input).catch((error) => throwUnreadable(name, error))
  const company_id = file.company.id
  // An import of an export neither suspends nor resumes a company that exists.
  const isKept = into_empty && (await api.find(readCompany, { params: { company_id } })) !== null
  const send = async (check: boolean, from = 0) => {
    const found: Difference[] = []
    for (const [index, { file: part, known }] of parts.entries().drop(from)) {
      const file = isKept ? { ...part, company: { ...part.company, suspended: undefined } } : part
      const body = { hash, part: index + 1, parts: parts.length, check, into_empty, file, known }
      const request = { params: { company_id }, body, isRepeatable: true } as const
      const { differences } = await api.call(createImport, request).catch((error) => throwExplained(name, error))
      found.push(...differences)
    }
    return found
  }
  const summary = describeCounts(file)
  const begun = await api.find(readImport, { params: { company_id, hash } })
  // Loaded again, it would take back what has changed since.
  if (into_empty && begun?.next_part === null) return { summary, differences: await send(true) }
  if (parts.length === 1) return { summary, differences: await send(false) }
  // Each part is a transaction: none is loaded before all of them are known to be valid.
  const issues = findDuplicates(deriveRows(file, 0, 0))
  if (issues.length > 0) throw problems(name, issues)
  const differences = await send(true)
  const named = new Set(differences.map(({ type, id }) => `${type} ${id}`))
  // A request may have created a row with an id of the file since the check.
  const later = await send(false, (begun?.next_part ?? 1) - 1)
  return { summary, differences: [...differences, ...later.filter(({ type, id }) => !named.has(`${type} ${id}`))] }
}

function describeCounts(file: SeedFile): string {
  const counts = Object.entries(countFile(file)).map(([name, count]) => {
    const { noun } = TABLES[name as keyof typeof TABLES]
    return plural(count, noun, /[sx]$/.test(noun) ? `${noun}es` : `${noun}s`)
  })
  const { id, name } = file.company
  return `Loaded company ${id} (${name})${counts.length > 0 ? `: ${counts.join(', ')}` : ''}.`
}

const DIFFERENCES_MAX = 20

export function describeDifferences(differences: Difference[]): string[] {
  if (differences.length === 0) return []
  const order = NAMES.map((name) => TABLES[name].noun as string)
  const lines = differences
    .toSorted((a, b) => order.indexOf(a.type) - order.indexOf(b.type))
    .slice(0, DIFFERENCES_MAX)
    .map(({ type, id, fields }) => `${type} ${id} already exists and differs: ${fields.join(', ')}`)
  const more = differences.length - lines.length
  const advice = 'Clients and orders that exist are not changed by a file: change them through the API.'
  return [...lines, ...(more > 0 ? [`and ${more} more`] : []), advice]
}

/**
 * Loads what `export` printed into an empty company: its rows, held in memory, part after part, then each email thread.
 * An interrupted import continues with the first part that is missing; threads that are there stay as they are.
 */
export async function importCompany(api: AdminApi, company_id: number, name: string): Promise<void> {
  const readLines = () => linesOf(ReadableStream.from(createReadStream(resolvePath(name))))
  const { file, integrations } = await readExport(readLines()).catch((error) => throwUnreadable(name, error))
  // A context shows nothing that names another company.
  const own: unknown[] = [file.company.id, `${file.company.id}`]
  const renamed = (key: string, at: unknown) => (/^company(_id|Id)$/.test(key) && own.includes(at) ? company_id : at)
  const thread_contexts = file.thread_contexts?.map((context) => JSON.parse(JSON.stringify(context ?? null), renamed))
  const input = { ...file, company: { ...file.company, id: company_id }, thread_contexts }
  const { summary, differences } = await importSeed(api, input, name, true)
  const remedy = ` Move company ${company_id} to another database, and run this again.`
  let [number, threads, added] = [0, 0, 0]
  for await (const line of readLines()) {
    number += 1
    const body = threadOf(line)
    if (body === null) continue
    // As it is in the file: parsed and written again, its numbers could differ.
    const sent = api.call(importEmailThread, { params: { company_id }, body: body as never, isRepeatable: true })
    const { is_new } = await sent.catch((error) => throwExplained(`${name}, line ${number}`, error, remedy))
    threads += 1
    if (is_new) added += 1
  }
  console.log(`${summary}\nEmail threads: ${threads}, of which ${added} were new.`)
  if (integrations[0]) console.error(`Set up again, since an export has no credentials: ${integrations.join(', ')}.`)
  for (const line of describeDifferences(differences)) console.error(line)
  if (differences.length > 0) throw new CommandError(`Company ${company_id} has other rows than ${name}.`)
}

/** For `catch`. @param remedy of a conflict */
function throwExplained(name: string, error: unknown, remedy = ''): never {
  if (!(error instanceof ApiError)) throw error
  const { status, issues, message } = error
  if (status === 409) throw new CommandError(`${name}: ${message}${remedy}`)
  const lines = issues.map(({ path, message }) => (path === 'file' ? message : `\`${path}\` ${message}`))
  throw lines.length === 0 ? error : problems(name, lines)
}
