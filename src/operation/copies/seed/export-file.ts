import type { SeedInput } from './file.ts'

/** Lists that an export and a seed file have in common. */
const LISTS = ['order_statuses', 'taxes', 'clients', 'orders', 'catalog_items', 'thread_contexts'] as const

const THREAD = '{"type":"email_threads","data":'

/** The JSON of the email thread in a line of an export; null for another line. */
export function threadOf(line: string): string | null {
  return line.startsWith(THREAD) ? line.trimEnd().slice(THREAD.length, -1) : null
}

/**
 * Reads the lines of an export: its responses one after the other.
 *
 * @param takeThread gets the JSON of each email thread
 * @returns a seed file without the integrations, whose credentials an export does not have, and the kinds of these
 * @throws RangeError for lines that are no complete export
 */
export async function readExport(
  lines: AsyncIterable<string> | Iterable<string>,
  takeThread: (json: string) => void = () => undefined,
) {
  const file: Record<string, unknown[]> = Object.fromEntries(LISTS.map((name) => [name, []]))
  const integrations: string[] = []
  let company: SeedInput['company'] | undefined
  let last = ''
  for await (const text of lines) {
    if (text.trim() === '') continue
    const thread = threadOf(text)
    if (thread !== null) takeThread(thread)
    else {
      const { type, data } = JSON.parse(text)
      last = type
      if (type === 'company') company = data
      else if (type === 'integrations') integrations.push(...Object.keys(data))
      else file[type]?.push(data)
    }
  }
  if (!company || last !== 'end')
    throw new RangeError('the export is incomplete: its first line is `company`, its last `end`')
  return { file: { company, ...file } as SeedInput, integrations }
}
