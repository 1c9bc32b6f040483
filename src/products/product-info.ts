import { decryptCredentials } from '../auth/credentials.ts'
import type { RequestContext } from '../http/context.ts'
import type { Answer } from '../http/contract.ts'
import { ApiError, invalid, notFound } from '../http/errors.ts'
import type { readProduct as contract } from './contract.ts'
import { presentLine } from './present.ts'
import { findIntegration, findInvoiceItem, type IntegrationRow } from './queries.ts'
import { SupplierError, type SupplierName } from './suppliers/supplier.ts'
import { connectSupplierA, supplierACredentialsSchema } from './suppliers/supplier-a.ts'
import { connectSupplierB, supplierBCredentialsSchema, supplierBIdSchema } from './suppliers/supplier-b.ts'
import { filterVariants } from './suppliers/variants.ts'

type ProductInfo = Answer<typeof contract>

export interface ProductQuery {
  style?: string | undefined
  color?: string | undefined
  size?: string | undefined
  sku?: string | undefined
  styleId?: string | undefined
  styleid?: string | undefined
}

/** @throws ApiError 400 without an id, 404 when there is no such line in the company */
export async function readInvoiceLine({ db, companyId }: RequestContext, id: number | undefined): Promise<ProductInfo> {
  if (id === undefined) throw missing('id')
  const row = await findInvoiceItem(db, companyId, id)
  if (!row) throw notFound('There is no such invoice item.')
  return { source: 'invoice_item', item: presentLine(row) }
}

/** @throws ApiError 400 for what is missing or cannot be an id, 409 without the integration, 502 when it fails */
export async function readSupplierProducts(
  context: RequestContext,
  source: SupplierName,
  query: ProductQuery,
): Promise<ProductInfo> {
  const { style = null, color = null, size = null } = query
  if (source === 'supplier_a') {
    if (style === null) throw missing('style')
    const row = usable(source, await findIntegration(context.db, context.companyId, source))
    const credentials = supplierACredentialsSchema.parse(await open(context, row))
    const { data } = await connectSupplierA({ ...row, credentials })
      .fetchStyle(style)
      .catch(refuse)
    const filter = { color: query.color, size: query.size }
    return { source, query: { style, color, size }, products: filterVariants(data, filter) }
  }
  const sku = checkId('sku', query.sku)
  const styleId =
    checkId('styleId', query.styleId) ?? checkId('styleid', query.styleid) ?? checkId('style', query.style)
  const wanted = sku ?? styleId
  if (wanted === null) throw missing('styleId')
  const row = usable(source, await findIntegration(context.db, context.companyId, source))
  const credentials = supplierBCredentialsSchema.parse(await open(context, row))
  const supplier = connectSupplierB({ ...row, credentials })
  const { data } = await (sku === null ? supplier.productsOfStyle(wanted) : supplier.productBySku(sku)).catch(refuse)
  return { source, query: { sku, styleId: sku === null ? styleId : null }, products: data }
}

function open({ credentialsKey, companyId }: RequestContext, row: IntegrationRow): Promise<unknown> {
  return decryptCredentials(credentialsKey, companyId, row.kind, row.credentials)
}

function usable(source: SupplierName, row: IntegrationRow | undefined): IntegrationRow {
  if (row?.enabled) return row
  throw new ApiError('conflict', {
    message: row ? `The company's integration ${source} is disabled.` : `The company has no integration ${source}.`,
    details: { reason: row ? 'integration_disabled' : 'integration_missing' },
  })
}

function refuse(error: unknown): never {
  if (!(error instanceof SupplierError)) throw error
  throw new ApiError('upstream_failed', { details: { reason: error.reason } })
}

function checkId(path: string, id: string | undefined): string | null {
  if (id === undefined) return null
  const checked = supplierBIdSchema.safeParse(id)
  if (checked.success) return checked.data
  throw invalid(checked.error.issues.map(({ message }) => ({ path, message })))
}

function missing(path: string): ApiError {
  return invalid([{ path, message: 'is required' }])
}
