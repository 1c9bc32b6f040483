export type Fields = Record<string, unknown>

/** Refuses a call with one of the protocol's codes. */
export class Refusal extends Error {
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

export function readFields(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? { ...value } : {}
}

export function readList(value: unknown): Fields[] {
  return Array.isArray(value) ? value.map(readFields) : []
}

/** Refuses control characters in any text of a body; line breaks and tabs may stand anywhere but in a name. */
export function checkTexts(value: unknown): void {
  if (typeof value === 'string') {
    const isBroken = /[^\P{Cc}\t\n\r]/u.test(value) || !value.isWellFormed()
    if (isBroken) throw new Refusal('2040', 'Invalid String. The String may contain unsupported or illegal chars')
  } else if (typeof value === 'object' && value !== null) {
    for (const each of Object.values(value)) checkTexts(each)
  }
}

/** Refuses what no customer, vendor or employee may be called. */
export function checkName(name: unknown): string {
  if (typeof name !== 'string' || name.trim() === '') throw new Refusal('2020', 'Required param missing: DisplayName')
  if (/[:\t\n\r]/.test(name)) throw new Refusal('2040', `Element contains invalid characters. ${name}`)
  if (name.length > 500) throw new Refusal('2050', 'DisplayName is too long')
  return name
}
