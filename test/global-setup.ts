import { randomInt } from 'node:crypto'
import type { TestProject } from 'vitest/node'
import { startAccounting, startTokenHost } from '../src/simulators/accounting.ts'
import { startCrmApi } from '../src/simulators/crm-api.ts'
import { startS3 } from '../src/simulators/s3.ts'
import { startSupplierA } from '../src/simulators/supplier-a.ts'
import { startSupplierB } from '../src/simulators/supplier-b.ts'
import { startReceiver } from './delivery/webhooks/receiver.ts'
import { leaveOutProvoked } from './provoked-errors.ts'

declare module 'vitest' {
  export interface ProvidedContext {
    /** The accounting system, before `/t/SCOPE`. */
    accountingUrl: string
    /** The host that gives its tokens, before `/t/SCOPE`. */
    tokenHostUrl: string
    /** The integration API as an integrator meets it. */
    crmApiUrl: string
    /** Where `npm run prism` records every request and response; '' in any other run. */
    prismRecorder: string
    /** Whether `test/kernel/db/released-sql.isolated.test.ts` records. */
    recordsRelease: boolean
    /** A company's own storage, before `/t/SCOPE`. */
    s3Url: string
    /** Of the steps of `test/model`: `MODEL_SEED`, or a random one. */
    modelSeed: number
    /** Hosts of the supplier simulators; the SOAP endpoint of supplier_a is at `/productinfo`. */
    supplierAUrl: string
    supplierBUrl: string
    /** An endpoint of webhooks, and a resolver, before `/t/SCOPE`. */
    receiverUrl: string
  }
}

/** Starts the outside world once for the whole run, in Node: tests reach it over real HTTP. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  leaveOutProvoked()
  project.provide('prismRecorder', process.env.PRISM_RECORDER ?? '')
  project.provide('modelSeed', Number(process.env.MODEL_SEED ?? randomInt(1_000_000_000)))
  project.provide('recordsRelease', process.env.RECORD_RELEASE !== undefined)
  const accounting = await startAccounting()
  project.provide('accountingUrl', accounting.url)
  const tokenHost = await startTokenHost(accounting)
  project.provide('tokenHostUrl', tokenHost.url)
  const crmApi = await startCrmApi()
  project.provide('crmApiUrl', crmApi.url)
  const s3 = await startS3()
  project.provide('s3Url', s3.url)
  const [supplierA, supplierB] = await Promise.all([startSupplierA(), startSupplierB()])
  project.provide('supplierAUrl', supplierA.url)
  project.provide('supplierBUrl', supplierB.url)
  const receiver = await startReceiver()
  project.provide('receiverUrl', receiver.url)
  return async () => {
    await Promise.all([
      accounting.close(),
      tokenHost.close(),
      crmApi.close(),
      s3.close(),
      supplierA.close(),
      supplierB.close(),
      receiver.close(),
    ])
  }
}
