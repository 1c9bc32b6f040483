import * as z from 'zod/mini'

/** What an error answer says, in whichever of its shapes. */
export interface FaultReport {
  /** Without leading zeros, in the order of the answer. */
  codes: string[]
  /** The first message, for people; empty when there is none. */
  message: string
  oauthError: string | null
}

const NO_FAULT: FaultReport = { codes: [], message: '', oauthError: null }
const MOST_ERRORS = 20
const LONGEST_XML = 16_384

const text = z.catch(z.optional(z.pipe(z.union([z.string(), z.number()]), z.transform(String))), undefined)
const faultError = z.object({ code: text, message: text, Message: text, detail: text, Detail: text })
const errorList = z.catch(
  z.optional(
    z.union([
      z.array(faultError),
      z.pipe(
        faultError,
        z.transform((error) => [error]),
      ),
    ]),
  ),
  undefined,
)
const faultBody = z.object({
  Fault: z.catch(z.optional(z.object({ Error: errorList })), undefined),
  fault: z.catch(z.optional(z.object({ error: errorList })), undefined),
  error: z.catch(z.optional(z.string()), undefined),
  error_description: text,
})

/**
 * Reads a fault out of an answer's body: `{Fault:{Error:[…]}}`, `{fault:{error:[…]}}`, their XML (sent for throttling
 * even where JSON was asked for), or an OAuth `{error}`. Gives null for a body that is none of these, which under
 * status 200 means success.
 */
export function readFault(body: string): FaultReport | null {
  const start = body.trimStart()
  if (start.startsWith('<')) return readXmlFault(start.slice(0, LONGEST_XML))
  const parsed = faultBody.safeParse(parseJson(start))
  if (!parsed.success) return null
  const { Fault, fault, error, error_description: description } = parsed.data
  if (!Fault && !fault)
    return error === undefined ? null : { ...NO_FAULT, message: description ?? '', oauthError: error }

  const errors = (Fault?.Error ?? fault?.error ?? []).slice(0, MOST_ERRORS)
  const [first] = errors
  const parts = [first?.Message ?? first?.message, first?.Detail ?? first?.detail].filter(Boolean)
  return {
    codes: errors.flatMap((each) => (each.code === undefined ? [] : [trimCode(each.code)])),
    message: [...new Set(parts)].join(': '),
    oauthError: null,
  }
}

/** Undefined for what is not JSON. */
export function parseJson(body: string): unknown {
  try {
    return JSON.parse(body)
  } catch {
    return undefined
  }
}

function readXmlFault(xml: string): FaultReport | null {
  if (!/<(?:\w+:)?Fault[\s>]/.test(xml)) return null
  const codes: string[] = []
  for (const [, attributes = ''] of xml.matchAll(/<(?:\w+:)?Error\b([^<>]*)/g)) {
    const [, code] = /\bcode=["'](\d+)["']/.exec(attributes) ?? []
    if (code) codes.push(trimCode(code))
  }
  const [, message = ''] = /<(?:\w+:)?Message>([^<]*)</.exec(xml) ?? []
  return { ...NO_FAULT, codes: codes.slice(0, MOST_ERRORS), message }
}

function trimCode(code: string): string {
  return code.trim().replace(/^0+(?=\d)/, '')
}
