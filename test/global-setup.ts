import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import type { TestProject } from 'vitest/node'
import { leaveOutProvoked } from './provoked-errors.ts'
import type { SimulatorUrls } from './simulators.ts'

declare module 'vitest' {
  /**
   * The addresses of the simulators come before `/t/SCOPE`: the accounting system and the host that gives its tokens,
   * the integration API as an integrator meets it, a company's own storage, an endpoint of webhooks and a resolver, and
   * the suppliers, of which supplier_a has its SOAP endpoint at `/productinfo`.
   */
  export interface ProvidedContext extends SimulatorUrls {
    /** Where `npm run prism` records every request and response; '' in any other run. */
    prismRecorder: string
    /** Whether `test/kernel/db/released-sql.isolated.test.ts` records. */
    recordsRelease: boolean
    /** Of the steps of `test/model`: `MODEL_SEED`, or a random one. */
    modelSeed: number
  }
}

/** Starts the outside world once for the whole run, in Node: tests reach it over real HTTP. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  leaveOutProvoked()
  project.provide('prismRecorder', process.env.PRISM_RECORDER ?? '')
  project.provide('modelSeed', Number(process.env.MODEL_SEED ?? randomInt(1_000_000_000)))
  project.provide('recordsRelease', process.env.RECORD_RELEASE !== undefined)
  const simulators = new Worker(join(import.meta.dirname, 'simulators.ts'))
  const [urls]: SimulatorUrls[] = await once(simulators, 'message')
  if (!urls) throw new Error('The simulators did not start.')
  project.provide('accountingUrl', urls.accountingUrl)
  project.provide('tokenHostUrl', urls.tokenHostUrl)
  project.provide('crmApiUrl', urls.crmApiUrl)
  project.provide('s3Url', urls.s3Url)
  project.provide('supplierAUrl', urls.supplierAUrl)
  project.provide('supplierBUrl', urls.supplierBUrl)
  project.provide('receiverUrl', urls.receiverUrl)
  return async () => void (await simulators.terminate())
}
