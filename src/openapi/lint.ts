import { createConfig, lintFromString } from '@redocly/openapi-core'
import spectralCore from '@stoplight/spectral-core'
import spectralRulesets from '@stoplight/spectral-rulesets'
import { contracts } from '../contracts.ts'
import type { JsonObject } from './json.ts'
import { describeApi } from './openapi.ts'

/*
 * npm run lint:api: the published description under the recommended rules of two linters. Any word of theirs, a hint
 * too, is a failure.
 */
if (import.meta.main) {
  const problems = await lintDescription(describeApi(contracts))
  for (const problem of problems) console.error(problem)
  if (problems.length > 0) process.exitCode = 1
  else console.log('The published description has no problems.')
}

/** What two linters have to say about an OpenAPI document, one line each. */
export async function lintDescription(document: JsonObject): Promise<string[]> {
  const source = JSON.stringify(document, null, 2)
  return [...(await lintWithRedocly(source)), ...(await lintWithSpectral(source))]
}

async function lintWithRedocly(text: string): Promise<string[]> {
  const config = await createConfig({ extends: ['recommended'] })
  const found = await lintFromString({ source: text, absoluteRef: 'openapi.json', config })
  return found.map(({ ruleId, message, location }) => `redocly ${ruleId} ${location[0]?.pointer ?? ''}: ${message}`)
}

async function lintWithSpectral(text: string): Promise<string[]> {
  const spectral = new spectralCore.Spectral()
  spectral.setRuleset(new spectralCore.Ruleset({ extends: [[spectralRulesets.oas, 'recommended']] }))
  const found = await spectral.run(text)
  return found.map(({ code, message, path }) => `spectral ${code} ${path.join('/')}: ${message}`)
}
