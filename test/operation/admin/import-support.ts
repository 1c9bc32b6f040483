import { expect } from 'vitest'
import type { SeedInput } from '../../../src/operation/copies/seed/file.ts'
import { splitSeedFile } from '../../../src/operation/copies/seed/split.ts'
import { adminCall } from '../../support/admin.ts'

/** The bodies of the requests that load a seed file. */
export function partsOf(file: SeedInput, options: { check?: boolean; into_empty?: boolean } = {}) {
  const { hash, parts } = splitSeedFile(file)
  return parts.map((part, index) => ({ hash, part: index + 1, parts: parts.length, ...options, ...part }))
}

/** Loads a whole seed file. @returns the differences that were found */
export async function loadSeed(file: SeedInput): Promise<object[]> {
  const differences: object[] = []
  for (const part of partsOf(file)) {
    const { status, body } = await adminCall('POST', `/companies/${file.company.id}/imports`, part)
    expect([status, body.error]).toEqual([200, undefined])
    differences.push(...body.differences)
  }
  return differences
}
