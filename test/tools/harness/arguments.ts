import { parseArgs } from 'node:util'

/** Flags of a command line: whole numbers, or those that are there or not. @throws Error with the usage for others */
export function readFlags<Name extends string, Switch extends string = never>(
  usage: string,
  numbers: Record<Name, [least: number, most: number]>,
  switches: readonly Switch[] = [],
) {
  const options = {
    ...Object.fromEntries(Object.keys(numbers).map((name) => [name, { type: 'string' as const }])),
    ...Object.fromEntries(switches.map((name) => [name, { type: 'boolean' as const }])),
  }
  const { values } = parseArgs({ options })
  for (const [name, [least, most]] of Object.entries<[number, number]>(numbers)) {
    const text = values[name]
    if (text === undefined) continue
    const value = Number(text)
    if (!/^\d{1,9}$/.test(String(text)) || value < least || value > most) {
      throw new Error(`A whole number from ${least} to ${most} was expected, not '${text}'. Usage: ${usage}`)
    }
    Object.assign(values, { [name]: value })
  }
  return values as Partial<Record<Name, number> & Record<Switch, boolean>>
}

/** Prints what is wrong, of which there may be much, and fails the command for it. */
export function conclude(problems: readonly string[]): void {
  for (const problem of problems.slice(0, 20)) console.log(`FAILED: ${problem}`)
  if (problems.length > 0) process.exitCode = 1
}
