import type { Documentation } from '../http/contract.ts'
import { toVariant } from './suppliers/supplier-a.ts'

const exampleVariant = toVariant({
  style: 'PC61',
  productTitle: 'Everyday Cotton Tee',
  brandName: 'Cedar Row',
  category: 'T-Shirts',
  catalogColor: 'Navy',
  size: 'L',
  sizeIndex: 4,
  inventoryKey: '91100',
  uniqueKey: '911004',
  productStatus: 'Regular',
  pieceWeight: 0.42,
  caseSize: 72,
  piecePrice: 2.9,
  dozenPrice: 2.75,
  casePrice: 2.6,
  productImage: 'https://images.supplier-a.example/PC61_navy.jpg',
})

export const documentation = {
  searchProducts: {
    summary: 'Search the catalogue, both suppliers and stored invoice lines',
    description:
      'Searches the sources in parallel and always responds within about 4 seconds: a source that fails or is too slow has empty arrays, and `sources` says why. Every word of `q` must occur, ignoring case: in the title (local), in title or description (lines); at most 50 per source, newest first. supplier_a is searched for the style number found in `q`: the first of at most two that it knows. A blank `q` returns the 20 newest items of the catalogue and nothing else. Results of suppliers are cached: fresh for 10 minutes, then stale for up to 24 hours while they are refreshed.',
    example: {
      query: { q: 'cotton tee', include: 'local,lines' },
      response: {
        query: 'cotton tee',
        local_items: [{ id: 7, title: 'Heavy cotton tee', description: 'Navy, S–3XL', price: 9.5 }],
        supplier_b_styles: [],
        supplier_a: { style: null, products: [], count: 0, summary: null },
        invoice_lines: [],
        sources: { local: 'ok', supplier_b: 'skipped', supplier_a: 'skipped', lines: 'ok' },
      },
    },
  },
  readProduct: {
    summary: 'Read a supplier’s product or a stored invoice line',
    description:
      '`supplier_a` requires `style` and returns its variants, filtered by `color` and `size`. `supplier_b` requires `sku` or `styleId` (alias `styleid`; `style` is used when neither is sent; `sku` takes precedence) and returns the SKUs grouped by colour. `invoice_item` requires `id`. `query` holds the parameters that were used. An unknown style or SKU returns no products, not an error. Results of suppliers are cached: fresh for 10 minutes, then stale for up to 24 hours while they are refreshed; a style that supplier_a does not know is cached for an hour. 409: the company has no such integration, or it is disabled. 502: the supplier failed, or rejected the company’s credentials, and nothing is cached.',
    example: {
      params: { source: 'supplier_a' },
      query: { style: 'PC61', color: 'Navy' },
      response: {
        source: 'supplier_a',
        query: { style: 'PC61', color: 'Navy', size: null },
        products: [exampleVariant],
      },
    },
  },
} satisfies Record<string, Documentation>
