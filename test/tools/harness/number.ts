/** A whole number of a command line. @throws Error with the usage for another text */
export function readNumber(text: string, usage: string, [least, most] = [0, 999_999_999]): number {
  const value = Number(text)
  if (/^\d{1,9}$/.test(text) && value >= least && value <= most) return value
  throw new Error(`A whole number from ${least} to ${most} was expected, not '${text}'. Usage: ${usage}`)
}
