import type { Documentation } from '../../kernel/api/contract.ts'

const exampleVariant = {
  style: 'SOLO1',
  title: 'Harbor & Pine® Canvas Sample Tote. SOLO1',
  brand: 'Harbor & Pine',
  category: 'Bags',
  color: 'Athletic Heather',
  catalog_color: 'Athletic Hthr',
  size: 'OSFA',
  size_index: 1,
  inventory_key: '2000',
  unique_key: '20001',
  status: 'Active',
  piece_weight: 0.3,
  case_size: 72,
  piece_price: 6,
  piece_sale_price: null,
  dozen_price: 5.7,
  dozen_sale_price: null,
  case_price: 5.4,
  case_sale_price: null,
  map_price: null,
  sale_start_date: null,
  sale_end_date: null,
  product_image: 'https://images.supplier-a.example/catalog/SOLO1/Athletic_Hthr/model_front_full.jpg',
  swatch_image: 'https://images.supplier-a.example/catalog/SOLO1/Athletic_Hthr/colour_swatch.jpg',
  front_image: 'https://images.supplier-a.example/catalog/SOLO1/Athletic_Hthr/model_front.jpg',
  back_image: 'https://images.supplier-a.example/catalog/SOLO1/Athletic_Hthr/model_back.jpg',
}

export const documentation = {
  searchProducts: {
    summary: 'Search the catalogue, both suppliers and stored invoice lines',
    description:
      'Searches the sources in parallel and always responds within about 4 seconds: a source that fails or is too slow has empty arrays, and `sources` says why. Every word of `q` must occur, ignoring case: in the title (local), in the title or the first 200 characters of the description (lines); at most 50 per source, newest first. supplier_a is searched for the style number found in `q`: the first of at most two that it knows. A blank `q` returns the 20 newest items of the catalogue and nothing else. Results of suppliers are cached: fresh for 10 minutes, then stale for up to 24 hours while they are refreshed.',
    example: {
      query: { q: 'triblend embroidery', include: 'local,lines' },
      response: {
        query: 'triblend embroidery',
        local_items: [
          {
            id: 30,
            title: 'Triblend tee with embroidery (NL6010)',
            description: 'NL6010, one location, 24 pieces and more. Sizes S to XL; larger sizes cost more.',
            price: 15.25,
          },
        ],
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
      query: { style: 'SOLO1', color: 'Athletic Heather' },
      response: {
        source: 'supplier_a',
        query: { style: 'SOLO1', color: 'Athletic Heather', size: null },
        products: [exampleVariant],
      },
    },
  },
} satisfies Record<string, Documentation>
