import { createConfig, lintFromString } from '@redocly/openapi-core'
import spectralCore from '@stoplight/spectral-core'
import spectralRulesets from '@stoplight/spectral-rulesets'
import { contracts } from '../contracts.ts'
import { describeApi } from './openapi.ts'

/*
 * npm run lint:api: the published description under the recommended rules of two linters. Any word of theirs, a hint
 * too, is a failure.
 */
const source = JSON.stringify(describeApi(contracts), null, 2)
const problems = [...(await lintWithRedocly(source)), ...(await lintWithSpectral(source))]
for (const problem of problems) console.error(problem)
if (problems.length > 0) process.exitCode = 1
else console.log('The published description has no problems.')

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
