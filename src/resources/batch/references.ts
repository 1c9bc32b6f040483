import { levelsOf } from '../../kernel/api/contract.ts'
import { ApiError, type Issue, invalid } from '../../kernel/http/errors.ts'

/** The only member of an object that stands for a value of an earlier result. */
export const REFERENCE = '$ref'
/** References are found down to here. */
const REFERENCE_DEPTH_MAX = 20
/** The characters that all references of a batch may name: they could make a small batch a huge one. */
const REFERENCED_MAX = 1_048_576
/** Deeper bodies would overflow the stack of the runtime's JSON writer. */
const DEPTH_MAX = 500

/** `0.client.id`: the position of an operation, and the path of a value in the body of its result. */
const FORM = /^(0|[1-9]\d?)((?:\.[A-Za-z0-9_]+)+)$/

interface Reference {
  path: string
  sent: unknown
  set: (value: unknown) => void
}

function referencesIn(parent: unknown, path: string[] = []): Reference[] {
  if (!isObject(parent) || path.length > REFERENCE_DEPTH_MAX) return []
  return Object.entries(parent).flatMap(([key, value]) => {
    const here = [...path, key]
    const isReference = isObject(value) && REFERENCE in value && Object.keys(value).length === 1
    if (!isReference) return referencesIn(value, here)
    const set = (resolved: unknown) => Object.defineProperty(parent, key, { value: resolved })
    return [{ path: here.join('.'), sent: value[REFERENCE], set }]
  })
}

function parse(sent: unknown): { position: number; names: string[] } | null {
  const [, position, names] = typeof sent === 'string' ? (FORM.exec(sent) ?? []) : []
  return names === undefined ? null : { position: Number(position), names: names.slice(1).split('.') }
}

/** The positions of earlier operations to which a body refers; those that are wrong are refused later. */
export function positionsOf(body: unknown, own: number): number[] {
  const positions = referencesIn(body).flatMap(({ sent }) => parse(sent)?.position ?? [])
  return [...new Set(positions)].filter((position) => position < own)
}

type OutcomeOf = (position: number) => { value: { body: unknown } } | { error: ApiError }

/**
 * @param lengths of what the references of each operation name: that of this one is added
 * @throws ApiError 400 that names each reference that has another form, is to no earlier operation, to one that failed,
 *   or to what its result does not have; 413 where the references of the batch name too much
 */
export function resolveReferences(body: unknown, own: number, outcomeOf: OutcomeOf, lengths: number[]): unknown {
  const isTooDeep = levelsOf(body).some((_, depth) => depth > DEPTH_MAX)
  if (isTooDeep) throw invalid([{ path: '', message: `must have at most ${DEPTH_MAX} levels` }])
  if (referencesIn(body).length === 0) return body
  const resolved = structuredClone(body)
  const issues: Issue[] = []
  let length = 0
  for (const { path, sent, set } of referencesIn(resolved)) {
    const found = find(sent, own, outcomeOf)
    if ('problem' in found) issues.push({ path: `${path}.${REFERENCE}`, message: found.problem })
    else set(found.value)
    length += 'value' in found ? String(found.value).length : 0
  }
  if (issues.length > 0) throw invalid(issues)
  const others = lengths.reduce((sum, each, position) => sum + (position === own ? 0 : each), 0)
  const message = `The references of a batch must name at most ${REFERENCED_MAX} characters`
  const details = { limit_bytes: REFERENCED_MAX }
  if (others + length > REFERENCED_MAX) throw new ApiError('too_large', { message, details })
  lengths[own] = length
  return resolved
}

function find(sent: unknown, own: number, outcomeOf: OutcomeOf) {
  const reference = parse(sent)
  if (!reference) {
    return { problem: 'must be the position of an earlier operation and a path in its result, such as 0.client.id' }
  }
  const { position, names } = reference
  if (own === 0) return { problem: 'must name an earlier operation, and this is the first' }
  if (position >= own) return { problem: `must name an earlier operation: this one is ${own}, the first is 0` }
  const outcome = outcomeOf(position)
  if ('error' in outcome) return { problem: `names operation ${position}, which failed` }
  let value: unknown = outcome.value.body
  // In JSON a list has no `length`, which is its own property, but not enumerable.
  for (const name of names)
    value = isObject(value) && Object.getOwnPropertyDescriptor(value, name)?.enumerable ? value[name] : undefined
  if (value === undefined) return { problem: `names nothing in the result of operation ${position}` }
  return isObject(value) ? { problem: 'must name a single value, not an object' } : { value }
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null
