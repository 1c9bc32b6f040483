import { CREDENTIALS as ACCOUNTING, startAccounting } from './accounting.ts'
import { ENDPOINT_PATH, CREDENTIALS as SUPPLIER_A, startSupplierA } from './supplier-a.ts'
import { CREDENTIALS as SUPPLIER_B, startSupplierB } from './supplier-b.ts'

export type Simulators = Awaited<ReturnType<typeof startSimulators>>

/** Starts simulators of the suppliers and the accounting system, with the integrations of a company that uses them. */
export async function startSimulators() {
  const [supplierA, supplierB, accounting] = await Promise.all([startSupplierA(), startSupplierB(), startAccounting()])
  return {
    integrations: {
      supplier_a: { base_url: supplierA.url + ENDPOINT_PATH, credentials: { ...SUPPLIER_A } },
      supplier_b: { base_url: supplierB.url, credentials: { ...SUPPLIER_B } },
      accounting_sync: { base_url: accounting.url, credentials: { ...ACCOUNTING } },
    },
    close: async () => void (await Promise.all([supplierA.close(), supplierB.close(), accounting.close()])),
  }
}
