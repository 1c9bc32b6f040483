import type * as z from 'zod/mini'
import type { Lifetime } from './cache.ts'
import type { SupplierBColorGroup, SupplierBStyle } from './suppliers/color-groups.ts'
import {
  rejectedCredentials,
  type SupplierAnswer,
  type SupplierConnection,
  type SupplierName,
} from './suppliers/supplier.ts'
import { connectSupplierA, supplierACredentialsSchema } from './suppliers/supplier-a.ts'
import { connectSupplierB, supplierBCredentialsSchema } from './suppliers/supplier-b.ts'
import type { SupplierAVariant } from './suppliers/variants.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS

/** Fresh 10 minutes, then served stale for up to 24 hours while it is refreshed. */
export const FOUND: Lifetime = { freshMs: 10 * MINUTE_MS, keptMs: 24 * HOUR_MS }
/** A style that supplier_a does not know is remembered for an hour, and not beyond. */
export const UNKNOWN_STYLE: Lifetime = { freshMs: HOUR_MS, keptMs: HOUR_MS }

/** One question to a supplier, not yet asked. */
export interface Lookup<Item> {
  supplier: SupplierName
  /** Equal for equal questions. */
  name: string
  lifetimeOf: (items: readonly Item[]) => Lifetime
  /** @throws SupplierError; credentials that are not in the supplier's form count as rejected */
  ask: (connection: SupplierConnection<unknown>) => Promise<SupplierAnswer<Item[]>>
}

/** All variants of a style of supplier_a. */
export function styleOfSupplierA(style: string): Lookup<SupplierAVariant> {
  const wanted = style.trim().toUpperCase()
  return {
    supplier: 'supplier_a',
    name: `style ${wanted}`,
    lifetimeOf: (items) => (items.length > 0 ? FOUND : UNKNOWN_STYLE),
    ask: async (connection) =>
      connectSupplierA(withCredentials('supplier_a', connection, supplierACredentialsSchema)).fetchStyle(wanted),
  }
}

/** Styles of supplier_b that match a text, whatever its case and white space. */
export function stylesOfSupplierB(text: string): Lookup<SupplierBStyle> {
  const wanted = text.trim().replaceAll(/\s+/gu, ' ')
  return {
    supplier: 'supplier_b',
    name: `search ${wanted.toLowerCase()}`,
    lifetimeOf: () => FOUND,
    ask: async (connection) => supplierB(connection).searchStyles(wanted),
  }
}

/** All SKUs of a style of supplier_b, by colour. */
export function productsOfSupplierB(styleId: string): Lookup<SupplierBColorGroup> {
  return {
    supplier: 'supplier_b',
    name: `style ${styleId}`,
    lifetimeOf: () => FOUND,
    ask: async (connection) => supplierB(connection).productsOfStyle(styleId),
  }
}

/** One SKU of supplier_b in the same form. */
export function skuOfSupplierB(sku: string): Lookup<SupplierBColorGroup> {
  return {
    supplier: 'supplier_b',
    name: `sku ${sku}`,
    lifetimeOf: () => FOUND,
    ask: async (connection) => supplierB(connection).productBySku(sku),
  }
}

function supplierB(connection: SupplierConnection<unknown>) {
  return connectSupplierB(withCredentials('supplier_b', connection, supplierBCredentialsSchema))
}

function withCredentials<Schema extends z.ZodMiniType>(
  supplier: SupplierName,
  connection: SupplierConnection<unknown>,
  schema: Schema,
): SupplierConnection<z.output<Schema>> {
  const credentials = schema.safeParse(connection.credentials)
  if (!credentials.success) throw rejectedCredentials(supplier)
  return { ...connection, credentials: credentials.data }
}
