import { route } from '../http/endpoint.ts'
import * as contract from './contract.ts'
import { readInvoiceLine, readSupplierProducts } from './product-info.ts'
import { searchProducts } from './search.ts'

export const routes = [
  route(contract.searchProducts, ({ query }, context) => searchProducts(context, query)),

  route(contract.readProduct, ({ params: { source }, query }, context) =>
    source === 'invoice_item' ? readInvoiceLine(context, query.id) : readSupplierProducts(context, source, query),
  ),
]
