// The floor of a search: one D1 batch and two KV reads in parallel, and what they hold as one response.
export default {
  async fetch(request, { DB, CACHE }) {
    const { searchParams } = new URL(request.url)
    const match = `"${searchParams.get('q')}"`
    const find = (table) =>
      DB.prepare(
        `SELECT t.* FROM ${table}_fts f JOIN ${table} t ON t.company_id = 1 AND t.id = f.rowid - (1 << 53)
         WHERE ${table}_fts MATCH ? AND f.rowid BETWEEN (1 << 53) AND (2 << 53) - 1 ORDER BY f.rowid DESC LIMIT 50`,
      ).bind(match)
    const [[items, lines], products, styles] = await Promise.all([
      DB.batch([find('catalog_items'), find('invoice_items')]),
      CACHE.get(searchParams.get('a'), 'json'),
      CACHE.get(searchParams.get('b'), 'json'),
    ])
    return Response.json({ local_items: items.results, invoice_lines: lines.results, products, styles })
  },
}
