import type { Call, Fault } from './kit.ts'

/**
 * Replaces the faults of a simulator's scope, and releases its held calls. Works in Node and in workerd.
 *
 * @param scope the address of the test's scope, `http://…/t/SCOPE`
 */
export async function spoil(scope: string, ...faults: Fault[]): Promise<void> {
  await read(scope, { method: 'PUT', body: JSON.stringify(faults) })
}

/** The calls to a scope, oldest first, and its state. */
export async function look<State = unknown>(scope: string): Promise<{ calls: Call[]; state: State }> {
  return JSON.parse(await read(scope))
}

async function read(scope: string, init: RequestInit = {}): Promise<string> {
  const response = await fetch(`${scope}/__simulator`, init)
  const text = await response.text()
  if (!response.ok) throw new Error(`The simulator responded with ${response.status}: ${text}`)
  return text
}
