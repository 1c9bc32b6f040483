import type { Hono } from 'hono'
import type { AppEnv } from '../context.ts'
import { mount } from '../http/endpoint.ts'
import * as contract from './contract.ts'
import { readInvoiceLine, readSupplierProducts } from './product-info.ts'
import { searchProducts } from './search.ts'

export function mountProducts(app: Hono<AppEnv>): void {
  mount(app, contract.searchProducts, ({ query }, context) => searchProducts(context, query))

  mount(app, contract.readProduct, ({ params: { source }, query }, context) =>
    source === 'invoice_item' ? readInvoiceLine(context, query.id) : readSupplierProducts(context, source, query),
  )
}
