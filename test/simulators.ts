import { parentPort } from 'node:worker_threads'
import { startAccounting, startTokenHost } from '../src/simulators/accounting.ts'
import { startCrmApi } from '../src/simulators/crm-api.ts'
import { startS3 } from '../src/simulators/s3.ts'
import { startSupplierA } from '../src/simulators/supplier-a.ts'
import { startSupplierB } from '../src/simulators/supplier-b.ts'
import { startReceiver } from './delivery/webhooks/receiver.ts'

/* The outside world of a run, in a thread of its own: it responds in time while Vitest's own is busy. */

const accounting = await startAccounting()

const urls = {
  accountingUrl: accounting.url,
  tokenHostUrl: (await startTokenHost(accounting)).url,
  crmApiUrl: (await startCrmApi()).url,
  s3Url: (await startS3()).url,
  supplierAUrl: (await startSupplierA()).url,
  supplierBUrl: (await startSupplierB()).url,
  receiverUrl: (await startReceiver()).url,
}
parentPort?.postMessage(urls)

export type SimulatorUrls = typeof urls
