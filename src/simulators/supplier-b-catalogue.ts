/**
 * The made-up catalogue behind the supplier_b simulator: data only, no Node imports, so that tests in workerd can ask it
 * what to expect. Nothing is random.
 */

export interface Account {
  account_number: string
  api_key: string
}

/** Whom the simulator lets in. The second account pays other prices, so that mixed-up companies can be seen. */
export const CREDENTIALS: Account = { account_number: '20001', api_key: 'kéy:with-colon' }
export const OTHER_CREDENTIALS: Account = { account_number: '20002', api_key: 'other-key' }

export const CALLS_PER_MINUTE = 60

/** 70 colours × 8 sizes = 560 SKUs, 1.9 MB. */
export const LARGE_STYLE_ID = 39
export const SINGLE_SKU_STYLE_ID = 40

export interface Style {
  styleID: number
  partNumber: string
  brandName: string
  styleName: string
  title: string
  description: string
  baseCategory: string
  categories: string
  brandImage: string
  styleImage: string
  sustainableStyle: boolean
}

export type Product = Record<string, unknown> & { sku: string; gtin: string; skuID_Master: number }

const BRANDS = ['Northfield', 'Cedar Row', 'Fieldhouse', 'Mill & Loom', 'Harbor+Pine'] as const
const GARMENTS = [
  { title: 'Unisex Jersey T-Shirt', category: 'T-Shirts', code: '30', price: 3.1 },
  { title: 'Heavyweight Pullover Hoodie', category: 'Fleece', code: '18', price: 14.5 },
  { title: 'Performance Polo', category: 'Polos', code: 'K5', price: 11.2 },
  { title: 'Long Sleeve Tee', category: 'T-Shirts', code: '24', price: 5.6 },
  { title: 'Quarter-Zip Sweatshirt', category: 'Fleece', code: '99', price: 17 },
  { title: 'Youth Crew Tee', category: 'Youth', code: '64', price: 2.6 },
  { title: 'Six-Panel Cap', category: 'Headwear', code: 'C1', price: 6.3 },
  { title: 'Canvas Tote', category: 'Bags', code: 'T8', price: 4.2 },
] as const
const COLORS = [
  'White',
  'Black',
  'Athletic Heather',
  'Navy',
  'True Royal',
  'Cardinal',
  'Forest',
  'Gold',
  'Maroon',
  'Ash',
] as const
const TONES = ['', 'Vintage ', 'Deep ', 'Faded ', 'Neon ', 'Pale ', 'Washed '] as const
const SIZES = ['XS', 'S', 'M', 'L', 'XL', '2XL', '3XL', '4XL'] as const
const WAREHOUSES = [
  'IL',
  'NV',
  'NJ',
  'KS',
  'TX',
  'GA',
  'OH',
  'CA',
  'FL',
  'PA',
  'WA',
  'NC',
  'MA',
  'CO',
  'MN',
  'TN',
] as const

/** Forty styles, ids 1 to 40: every brand has every garment. */
export const STYLES: readonly Style[] = BRANDS.flatMap((brand, brandIndex) =>
  GARMENTS.map((garment, garmentIndex) => {
    const styleID = brandIndex * GARMENTS.length + garmentIndex + 1
    const styleName = `${brand.slice(0, 2).toUpperCase()}${garment.code}${styleID}`
    return {
      styleID,
      partNumber: String(styleID * 100).padStart(5, '0'),
      brandName: brand,
      styleName,
      title: garment.title,
      description: `<ul><li>4.2 oz., 100% combed cotton</li><li>${garment.title} &amp; more</li></ul>`,
      baseCategory: garment.category,
      categories: `${garmentIndex + 1},21,${brandIndex + 50}`,
      brandImage: `Images/Brand/${brandIndex + 1}_fl.jpg`,
      styleImage: `Images/Style/${styleID}_fm.jpg`,
      sustainableStyle: garmentIndex === 0,
    }
  }),
)

/** Styles that hold every word of the text in brand, style name, part number, title or category, case ignored. */
export function searchStyles(text: string): Style[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean)
  return STYLES.filter((style) => {
    const { brandName, styleName, partNumber, title, baseCategory } = style
    const haystack = [brandName, styleName, partNumber, title, baseCategory].join('\n').toLowerCase()
    return words.every((word) => haystack.includes(word))
  })
}

/** All SKUs of a style as this account sees them, in no helpful order of sizes. */
export function productsOf(style: Style, account: Account = CREDENTIALS): Product[] {
  const isLarge = style.styleID === LARGE_STYLE_ID
  const isSingle = style.styleID === SINGLE_SKU_STYLE_ID
  const colorCount = isLarge ? 70 : isSingle ? 1 : 3 + (style.styleID % 5)
  const sizes = isLarge ? SIZES : isSingle ? SIZES.slice(2, 3) : SIZES.slice(1, 6)
  const products: Product[] = []
  for (const size of sizes.toReversed()) {
    for (let color = 0; color < colorCount; color++) products.push(makeProduct(style, account, color, size))
  }
  return products
}

function makeProduct(style: Style, account: Account, color: number, size: (typeof SIZES)[number]): Product {
  const sizeIndex = SIZES.indexOf(size)
  const garment = GARMENTS[(style.styleID - 1) % GARMENTS.length] ?? GARMENTS[0]
  const colorName = `${TONES[Math.floor(color / COLORS.length) % TONES.length]}${COLORS[color % COLORS.length]}`
  const number = style.styleID * 10_000 + color * 100 + sizeIndex
  const list = Number((garment.price + Math.max(0, sizeIndex - 4) * 1.25).toFixed(2))
  const discount = account.account_number === OTHER_CREDENTIALS.account_number ? 0.5 : 0.9
  const image = (view: string) => `Images/Color/${number - sizeIndex}_${view}.jpg`
  const quantities = WAREHOUSES.map((_, index) => (number * (index + 3)) % 397)
  return {
    sku: `B${String(number).padStart(8, '0')}`,
    gtin: String(100_000_000_000 + number).padStart(14, '0'),
    skuID_Master: number,
    styleID: style.styleID,
    brandName: style.brandName,
    styleName: style.styleName,
    colorName,
    colorCode: String(color + 1).padStart(2, '0'),
    colorFamily: COLORS[color % COLORS.length],
    colorSwatchImage: image('fm_swatch'),
    colorFrontImage: image('f_fm'),
    colorBackImage: color % 4 === 3 ? '' : image('b_fm'),
    colorSideImage: image('d_fm'),
    color1: `#${((color * 2_654_435) % 0xffffff).toString(16).padStart(6, '0')}`,
    color2: '',
    sizeName: size,
    sizeCode: String(sizeIndex + 2),
    sizeOrder: `B${sizeIndex + 1}`,
    unitWeight: Number((0.31 + sizeIndex * 0.03).toFixed(2)),
    caseQty: 72,
    mapPrice: 0,
    piecePrice: list,
    dozenPrice: Number((list * 0.97).toFixed(2)),
    casePrice: Number((list * 0.92).toFixed(2)),
    salePrice: color % 5 === 4 ? Number((list * 0.8).toFixed(2)) : 0,
    customerPrice: Number((list * discount).toFixed(2)),
    saleExpiration: color % 5 === 4 ? '2026-12-31T00:00:00' : '',
    qty: quantities.reduce((sum, each) => sum + each, 0),
    countryOfOrigin: 'HN',
    polyPackQty: '0',
    noeRetailing: false,
    warehouses: WAREHOUSES.map((warehouseAbbr, index) => ({
      warehouseAbbr,
      skuID: number * 100 + index,
      qty: quantities[index],
      closeout: false,
      dropship: false,
      excludeFreeFreight: false,
      fullCaseOnly: false,
      expectedInventory: '',
      returnable: true,
    })),
  }
}
