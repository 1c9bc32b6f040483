import * as z from 'zod/mini'
import { ApiError } from '../client/errors.ts'
import { type Contract, isoTime, LAST_INSTANT, type ResponseBody } from '../kernel/api/contract.ts'
import type { Element, InputOf, RequestOf } from './admin-api.ts'
import { type Argument, type Arguments, type Command, CommandError, command, nameOf, type Values } from './command.ts'
import { type Connection, connect, type Target, target } from './target.ts'

/** The arguments that a contract takes: all are among its parameters and fields, and fields have their types. */
type Fitting<C extends Contract, A extends Arguments> = {
  [K in keyof A]: K extends keyof InputOf<C['body']>
    ? Argument<InputOf<C['body']>[K] | undefined>
    : K extends keyof (InputOf<C['params']> & InputOf<C['query']>) | 'target'
      ? A[K]
      : never
}

/** One action as data. Arguments with the names of the contract's parameters and fields are sent as those. */
interface Row<C extends Contract, A extends Arguments> {
  contract: C
  arguments: A & Fitting<C, A>
  /** Finds the company: a list of all companies that takes the first argument, a unique id. */
  find?: Contract & { response: z.ZodMiniType<{ data: { company_id: number }[] }> }
  /** @returns why the arguments do not fit together */
  check?: ((values: Values<A>) => string | false) | undefined
  /** @returns the error where the service responds 404: by default that the `company_id` does not exist, or its own */
  missing?: ((values: Values<A>) => string) | undefined
}

export function request<C extends Contract, A extends Arguments>(
  row: Row<C, A> & { print: (response: ResponseBody<C>, values: Values<A>, service: Connection) => string },
) {
  return toCommand(row, async (service, request, values) => {
    console.log(row.print(await service.call(row.contract, request), values, service))
  })
}

type Cell = string | number | boolean | null | readonly (string | number)[]

interface Listing<C extends Contract, A extends Arguments> extends Row<C, A> {
  columns: Record<string, keyof Element<C> | ((row: Element<C>) => Cell)>
  limit?: number
  empty?: string
  after?: (elements: Element<C>[], values: Values<A>, service: Connection) => void | Promise<void>
}

export function listing<C extends Contract, A extends Arguments>(row: Listing<C, A>) {
  return toCommand(row, async (service, request, values) => {
    const { limit = Number.POSITIVE_INFINITY, columns, empty, after } = row
    const shown: Element<C>[] = []
    for await (const element of service.list(row.contract, request)) if (shown.push(element) > limit) break
    const cells = shown.slice(0, limit).map((row) => {
      return Object.values(columns).map((each) => (typeof each === 'function' ? each(row) : (row[each] as Cell)))
    })
    console.log(shown.length === 0 && empty ? empty : formatTable(Object.keys(columns), cells))
    if (shown.length > limit) console.log('… and more.')
    await after?.(shown, values, service)
  })
}

export function operation<A extends Arguments>(
  described: A,
  run: (service: Connection, values: Values<A>) => Promise<void>,
  { check, missing }: Pick<Row<Contract, A>, 'check' | 'missing'> = {},
): Command {
  const all: A & Arguments = { ...described, target: described.target ?? target() }
  return command(all, async (values) => {
    const refusal = check?.(values)
    if (refusal) throw new CommandError(refusal)
    await using service = await connect(z.object({ target: z.custom<Target>() }).parse(values).target)
    await run(service, values).catch((error: unknown) => throwExplained(error, described, values, missing?.(values)))
  })
}

function toCommand<C extends Contract, A extends Arguments>(
  { contract, arguments: described, find, check, missing }: Row<C, A>,
  run: (service: Connection, request: RequestOf<C>, values: Values<A>) => Promise<void>,
): Command {
  const send = async (service: Connection, values: Values<A>) => {
    if (!find) return run(service, toRequest(contract, values), values)
    const [id] = Object.values(values)
    const { data } = await service.call(find, { query: { id: String(id) } })
    if (!data[0]) throw new ApiError({ status: 404, code: 'not_found', message: 'It does not exist.' })
    await run(service, toRequest(contract, { ...values, company_id: data[0].company_id }), values)
  }
  return operation(described, send, { check, missing })
}

function toRequest<C extends Contract>({ path, body }: C, values: Values<Arguments>): RequestOf<C> {
  const fields = Object.entries(values).filter(([name]) => name !== 'target' && !path.includes(`{${name}}`))
  // The service validates them.
  const request: object = { params: values, [body ? 'body' : 'query']: Object.fromEntries(fields) }
  return request
}

/** For `catch`. An error response in the words of the command line. */
function throwExplained(error: unknown, described: Arguments, values: Values<Arguments>, missing?: string): never {
  if (!(error instanceof ApiError)) throw error
  const noCompany = 'company_id' in described ? `There is no company ${values.company_id}.` : error.message
  if (error.status === 404) throw new CommandError(missing ?? noCompany)
  const [issue] = error.issues
  const argument = issue && described[issue.path]
  if (!argument) throw error
  // An address may hold a secret.
  const value = String(values[issue.path])
  throw new CommandError(`${nameOf(argument)} ${issue.message}${value.includes('://') ? '' : `, not '${value}'`}.`)
}

export function formatTable(headings: string[], rows: readonly (readonly Cell[])[]): string {
  const toText = (cell: Cell) => (cell === null ? '-' : shortTime(toLine(String(cell))))
  const lines = [headings, ...rows.map((cells) => cells.map(toText))]
  const widths = headings.map((_, column) => Math.max(...lines.map((cells) => cells[column]?.length ?? 0)))
  const align = (cells: string[]) => cells.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join('  ')
  return lines.map((cells) => align(cells).trimEnd()).join('\n')
}

/** A time of the API without fractions of a second; any other text as it is. */
export function shortTime(text: string): string {
  return text.replace(/^(\d{4}-\d\d-\d\dT[\d:]+)\.\d+Z$/, '$1Z')
}

/** Text of somebody else in one line. */
export function toLine(text: string): string {
  return text.replaceAll(/[\p{Cc}\s]+/gu, ' ').trim()
}

/** A date-time, or `dateMs` after the beginning of a date in UTC, as the API takes it. */
export function time(dateMs: number, example: string) {
  const error = `must be a date (${example}) or a date-time with an offset`
  const toTime = (text: string) => isoTime(Math.min(LAST_INSTANT, Date.parse(text) + (text.includes('T') ? 0 : dateMs)))
  return z.pipe(z.union([z.iso.date(), z.iso.datetime({ offset: true })], error), z.transform(toTime))
}

export function someOf<const T extends string>(option: string, names: readonly T[]): Argument<T[] | undefined> {
  const read: Argument<T[] | undefined>['read'] = (given) => {
    const text = given.at(-1)?.text.trim()
    const chosen = text?.split(/\s*,\s*/)
    const unknown = chosen?.find((name) => !names.some((each) => each === name))
    if (unknown === undefined) return chosen && names.filter((name) => chosen.includes(name))
    throw new CommandError(`${option}: '${unknown}' is none of ${names.join(', ')}.`)
  }
  return { usage: `[${option} a,b]`, read }
}

export function plural(count: number, one: string, many: string): string {
  return `${count} ${count === 1 ? one : many}`
}
