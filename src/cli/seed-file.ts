import { readFile } from 'node:fs/promises'
import {
  findNodeAtLocation,
  type JSONVisitor,
  type Node,
  type ParseError,
  parseTree,
  printParseErrorCode,
  visit,
} from 'jsonc-parser'
import * as z from 'zod/mini'
import { type SeedFile, type SeedInput, seedFile } from '../operation/copies/seed/file.ts'
import type { IntegrationsFile } from '../operation/copies/seed/integrations-file.ts'
import { companyPrefix } from '../resources/files/keys.ts'
import { listObjects, StorageError, type StorageProblem } from '../resources/files/s3.ts'
import { CommandError } from './command.ts'

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
  const positions = locateValues(
    text,
    issues.slice(0, ISSUES_MAX).map(({ path }) => path),
  )
  const lines = issues.map(({ path, message }, index) => {
    const position = positions[index] ? ` (${positions[index]})` : ''
    return `${path.length === 0 ? 'the file' : `\`${z.core.toDotPath(path)}\``} ${message}${position}`
  })
  throw new CommandError(describeIssues(name, lines))
}

/** One line with every issue, at most 100. */
export function describeIssues(name: string, issues: string[]): string {
  const more = issues.length > ISSUES_MAX ? ` (and ${issues.length - ISSUES_MAX} more)` : ''
  return `${name}: ${issues.slice(0, ISSUES_MAX).join('; ')}${more}`
}

/** What the errors of jsonc-parser say is missing; all others are of a string. */
const EXPECTED: Record<string, string> = {
  InvalidSymbol: 'a value',
  InvalidNumberFormat: 'a value',
  UnexpectedEndOfNumber: 'a value',
  ValueExpected: 'a value',
  PropertyNameExpected: 'a name in double quotes',
  ColonExpected: "':'",
  CloseBraceExpected: "',' or '}'",
  CloseBracketExpected: "',' or ']'",
  EndOfFileExpected: 'the end of the file',
}

/** Where and why a text is not JSON, as a sentence. It quotes none of the text. */
export function describeSyntaxError(text: string): string {
  const ends: string[] = []
  const errors: { code: string; offset: number; end: string | undefined }[] = []
  const visitor: JSONVisitor = {
    onObjectBegin: () => void ends.push('}'),
    onArrayBegin: () => void ends.push(']'),
    onObjectEnd: () => void ends.pop(),
    onArrayEnd: () => void ends.pop(),
    onError: (code, offset) => errors.push({ code: printParseErrorCode(code), offset, end: ends.at(-1) }),
  }
  try {
    visit(text, visitor, { disallowComments: true })
  } catch {
    // It is nested too deeply.
  }
  const [first] = errors
  if (!first) return 'not valid JSON.'
  // A word is skipped: the next error names what it stands for.
  const { code, end } = errors.find((error) => error.code !== 'InvalidSymbol') ?? first
  const expected = code === 'CommaExpected' ? `',' or '${end}'` : EXPECTED[code]
  const position = describePosition(text, first.offset)
  return `${position} is not valid JSON. Expected ${expected ?? 'a string that is valid and ends on its line'}.`
}

/**
 * "line 3, column 5" for each path: of its value, of a member that of its name, else of the innermost value around it.
 * Nothing where the text is not JSON.
 */
export function locateValues(text: string, paths: (string | number)[][]): string[] {
  const root = parse(text)
  if (!root) return []
  return paths.map((path) => {
    const ends = path.map((_, index) => path.length - index)
    const [node] = ends.flatMap((end) => findNodeAtLocation(root, path.slice(0, end)) ?? [])
    const named = node?.parent?.type === 'property' ? node.parent : node
    return describePosition(text, named?.offset ?? 0)
  })
}

function parse(text: string): Node | null {
  const errors: ParseError[] = []
  try {
    const root = parseTree(text, errors, { disallowComments: true })
    return errors.length === 0 && root ? root : null
  } catch {
    // It is nested too deeply.
    return null
  }
}

/** Lines and columns count from 1, columns in UTF-16 units, as editors do. */
function describePosition(text: string, offset: number): string {
  const before = text.slice(0, offset)
  return `line ${before.split('\n').length}, column ${offset - before.lastIndexOf('\n')}`
}

/** What the error codes of storages mean for the seed file (S3 API reference, "Error responses"), and our own. */
const PROBLEMS: Record<StorageProblem, string> & Record<string, string> = {
  NoSuchBucket: 'the bucket does not exist',
  InvalidBucketName: 'the name of the bucket is not valid',
  InvalidAccessKeyId: 'the access key id is unknown',
  SignatureDoesNotMatch: 'the secret access key does not fit the access key id',
  AccessDenied: 'the keys may not list the bucket',
  AuthorizationHeaderMalformed: 'the region is not the one of the storage',
  PermanentRedirect: 'the bucket is in another region: use the endpoint of that region',
  TemporaryRedirect: 'the bucket is in another region: use the endpoint of that region',
  RequestTimeTooSkewed: 'the clock of this machine differs from that of the storage',
  timeout: 'it did not respond in time',
  network: 'it cannot be reached',
  address: 'its endpoint must be an https address that resolves to public addresses only',
  malformed: 'its response is not a list of objects: is the endpoint the one of its S3 API?',
  refused: 'it refused the listing',
}

/**
 * Makes one signed listing of at most one object of the company.
 *
 * @throws CommandError with the problem
 */
export async function checkStorage(
  given: NonNullable<IntegrationsFile['storage']>,
  companyId: number,
  now: number,
): Promise<void> {
  const { base_url, bucket, region, addressing, credentials } = given
  const { access_key_id: accessKeyId = '', secret_access_key: secretAccessKey = '' } = credentials
  // On loopback too: whether the service may call it is the service's to say.
  const addresses = { resolver: process.env.WEBHOOK_RESOLVER, allowsLoopback: true }
  const target = { endpoint: base_url, region, addressing, name: bucket, accessKeyId, secretAccessKey, addresses }
  try {
    await listObjects(target, now, companyPrefix(companyId), 1)
  } catch (error) {
    if (!(error instanceof StorageError)) throw error
    const { problem, status, code } = error
    const shown = code ?? (status !== null && `HTTP ${status}`)
    throw new CommandError(`storage: ${PROBLEMS[code ?? ''] ?? PROBLEMS[problem]}${shown ? ` (${shown})` : ''}.`)
  }
}
