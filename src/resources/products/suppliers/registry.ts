import type { Supplier } from './supplier.ts'
import { supplierA } from './supplier-a.ts'
import { supplierB } from './supplier-b.ts'

/** Every supplier, by the `kind` of its integrations. */
export const suppliers = { supplier_b: supplierB, supplier_a: supplierA } as const satisfies Record<string, Supplier>

export type SupplierName = keyof typeof suppliers

export const supplierNames = Object.values(suppliers).map(({ name }) => name)
