import * as z from 'zod'

/** A request of the suite, with its response. Bodies are as sent over the wire. */
export interface Exchange {
  method: string
  /** With the query. */
  path: string
  requestHeaders: [string, string][]
  requestBody: Buffer
  status: number
  responseHeaders: [string, string][]
  responseBody: Buffer
}

const headers = z.array(z.tuple([z.string(), z.string()]))
const headSchema = z.object({
  method: z.string(),
  path: z.string(),
  requestHeaders: headers,
  status: z.number(),
  responseHeaders: headers,
})

/** @throws Error where the form is not one of test/support/prism.ts */
export async function readExchange(form: FormData): Promise<Exchange> {
  const read = async (name: string): Promise<Buffer> => {
    const part = form.get(name)
    if (part === null) throw new Error(`The exchange has no ${name}.`)
    return typeof part === 'string' ? Buffer.from(part) : Buffer.from(await part.arrayBuffer())
  }
  const head = headSchema.parse(JSON.parse((await read('head')).toString()))
  return { ...head, requestBody: await read('request'), responseBody: await read('response') }
}

/** The value of a header, by its name in lower case. */
export function headerOf(pairs: [string, string][], name: string): string | undefined {
  return pairs.find(([each]) => each.toLowerCase() === name)?.[1]
}
