import { type Simulator, startSimulator } from '../../../src/simulators/kit.ts'

/**
 * An endpoint that accepts every message, and at `/dns-query` the JSON API of a resolver that knows no name: the faults
 * of a scope are what they respond otherwise.
 */
export function startReceiver(): Promise<Simulator> {
  return startSimulator(
    () => null,
    ({ path }) => (path.startsWith('/dns-query') ? { status: 200, body: '{"Status":3}' } : { status: 204, body: '' }),
  )
}
