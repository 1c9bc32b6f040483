/**
 * The promise's outcome, or a `TimeoutError` after `ms` milliseconds. The work itself is not stopped: bindings know no
 * cancellation.
 */
export async function withDeadline<T>(work: Promise<T>, ms: number): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | null = null
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new DOMException(`No answer within ${ms} ms.`, 'TimeoutError')), ms)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}
