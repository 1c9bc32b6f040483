/// <reference types="vite/types/importMeta.d.ts" />
import type { Contract } from '../../src/kernel/api/contract.ts'
import { findDocumentation, publishedFrom, type SliceModule } from '../../src/site/reference/reference.ts'

type Modules = Record<string, SliceModule>

/** As `site/reference/build.ts` finds them in Node. */
const resources: Modules = import.meta.glob('../../src/resources/*/{contract,documentation}.ts', { eager: true })
const administration: Modules = import.meta.glob('../../src/operation/admin/*/{contract,documentation}.ts', {
  eager: true,
})

/** What the integration API publishes. */
export const published = publishedFrom(Object.values(resources))
/** What the administration API publishes. */
export const publishedOfAdministration = publishedFrom(Object.values(administration))
export const contracts = published.endpoints
export const adminContracts = publishedOfAdministration.endpoints
const documentation = { ...published.documentation, ...publishedOfAdministration.documentation }
/** Finds the documentation of an endpoint of either API. */
export const documentationOf = (contract: Contract) => findDocumentation(documentation, contract)

/** `GET /clients/{id}`, as the tables of tests name an endpoint. */
export function nameOf(contract: Contract): string {
  return `${contract.method} ${contract.path}`
}

/** Every endpoint with its name, for `it.each`. */
export const endpoints: readonly [string, Contract][] = contracts.map((contract) => [nameOf(contract), contract])

/** The path and body of the endpoint's published example: a request that is valid wherever what it names exists. */
export function exampleOf(contract: Contract, params: Record<string, string> = {}): { path: string; body: unknown } {
  const { example } = documentationOf(contract)
  const all: Record<string, string> = { ...example.params, ...params }
  const path = contract.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(all[name] ?? 'missing'))
  const values = Object.entries(example.query ?? {}).map(([name, value]): [string, string] => [name, String(value)])
  const query = values.length > 0 ? `?${new URLSearchParams(values)}` : ''
  return { path: path + query, body: contract.body && example.body }
}

/** Each path once, with the methods that it knows. */
export function methodsByPath(): Map<string, string[]> {
  const byPath = Map.groupBy(contracts, ({ path }) => path)
  const methodsOf = ({ method }: Contract) => (method === 'GET' ? ['GET', 'HEAD'] : [method])
  return new Map([...byPath].map(([path, all]) => [path, all.flatMap(methodsOf)]))
}
