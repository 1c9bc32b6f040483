import { readFile } from 'node:fs/promises'
import * as z from 'zod/mini'
import { type SeedFile, type SeedInput, seedFile } from '../operation/copies/seed/file.ts'
import { CommandError } from './command.ts'
import { describeSyntaxError, locateValues } from './json-text.ts'

/** Of an invalid file, so that its one line stays readable. */
const ISSUES_MAX = 100

/**
 * The content of a valid file, as it is imported.
 *
 * @throws CommandError when the file cannot be read, is not JSON or not valid
 */
export async function readSeedFile(path: string, name: string): Promise<SeedInput> {
  const content = await readFile(path, 'utf8').catch((error: unknown) => {
    const code = error instanceof Error && 'code' in error ? error.code : ''
    throw new CommandError(`${name}: ${code === 'ENOENT' ? 'no such file' : `cannot be read (${code})`}.`)
  })
  const text = content.replace(/^\uFEFF/, '')
  let value: SeedInput
  try {
    value = JSON.parse(text)
  } catch {
    // The message of a JSON error quotes the file, which may hold credentials.
    throw new CommandError(`${name}: ${describeSyntaxError(text)}`)
  }
  checkSeed(value, name, text)
  return value
}

/**
 * @param text of the file, from which the issues get their lines and columns
 * @throws CommandError with every issue, at most 100
 */
export function checkSeed(value: unknown, name: string, text = ''): SeedFile {
  const parsed = seedFile.safeParse(value)
  if (parsed.success) return parsed.data
  const issues = parsed.error.issues.flatMap(({ message, ...issue }) => {
    const path = issue.path as (string | number)[]
    if (issue.code !== 'unrecognized_keys') return [{ path, message }]
    return issue.keys.map((key, index) => ({ path: [...path, key], message: message.split('\n')[index] ?? '' }))
  })
  const places = locateValues(
    text,
    issues.slice(0, ISSUES_MAX).map(({ path }) => path),
  )
  const lines = issues.map(({ path, message }, index) => {
    const place = places[index] ? ` (${places[index]})` : ''
    return `${path.length === 0 ? 'the file' : `\`${z.core.toDotPath(path)}\``} ${message}${place}`
  })
  throw new CommandError(describeIssues(name, lines))
}

/** One line with every issue, at most 100. */
export function describeIssues(name: string, issues: string[]): string {
  const more = issues.length > ISSUES_MAX ? ` (and ${issues.length - ISSUES_MAX} more)` : ''
  return `${name}: ${issues.slice(0, ISSUES_MAX).join('; ')}${more}`
}
