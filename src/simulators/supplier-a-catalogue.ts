/**
 * The made-up catalogue behind the supplier_a simulator: data only, no Node imports, so that tests in workerd can ask it
 * what to expect. Nothing is random: the same style always has the same rows.
 */

export interface Account {
  customer_number: string
  username: string
  password: string
}

/** What the simulator lets in. The second account pays other prices, so that mixed-up companies can be seen. */
export const CREDENTIALS: Account = { customer_number: '10001', username: 'shop', password: 'p&ss<word>"1\'' }
export const OTHER_CREDENTIALS: Account = { customer_number: '10002', username: 'rival', password: 'other-password' }

export const ENDPOINT_PATH = '/productinfo'
export const NAMESPACE = 'http://impl.webservice.integration.supplier-a.example/'

/** One `listResponse`: three groups of element names and texts. */
export interface Row {
  productBasicInfo: Record<string, string>
  productImageInfo: Record<string, string>
  productPriceInfo: Record<string, string>
}

interface Style {
  style: string
  title: string
  brand: string
  category: string
  price: number
  colors: number
  sizes: readonly string[]
}

const ADULT = ['XS', 'S', 'M', 'L', 'XL', '2XL', '3XL', '4XL', '5XL'] as const
const MIDDLE = ADULT.slice(1, 6)
const YOUTH = ['XS', 'S', 'M', 'L', 'XL'] as const
const ONE_SIZE = ['OSFA'] as const

export const LARGE_STYLE = 'DT6000'
export const SINGLE_ROW_STYLE = 'SOLO1'

const STYLES: readonly Style[] = [
  {
    style: LARGE_STYLE,
    title: 'Soft Touch Tee',
    brand: 'Northfield',
    category: 'T-Shirts',
    price: 3.42,
    colors: 62,
    sizes: ADULT,
  },
  {
    style: SINGLE_ROW_STYLE,
    title: 'Canvas Sample Tote',
    brand: 'Harbor & Pine',
    category: 'Bags',
    price: 6,
    colors: 1,
    sizes: ONE_SIZE,
  },
  {
    style: 'PC61',
    title: 'Everyday Cotton Tee',
    brand: 'Cedar Row',
    category: 'T-Shirts',
    price: 2.9,
    colors: 12,
    sizes: MIDDLE,
  },
  {
    style: 'PC61Y',
    title: 'Youth Everyday Cotton Tee',
    brand: 'Cedar Row',
    category: 'Youth',
    price: 2.5,
    colors: 6,
    sizes: YOUTH,
  },
  {
    style: 'PC61LS',
    title: 'Long Sleeve Everyday Cotton Tee',
    brand: 'Cedar Row',
    category: 'T-Shirts',
    price: 4.8,
    colors: 5,
    sizes: MIDDLE,
  },
  {
    style: 'ST350',
    title: 'Sport Wicking Tee',
    brand: 'Fieldhouse',
    category: 'Activewear',
    price: 5.2,
    colors: 10,
    sizes: ADULT,
  },
  {
    style: 'ST350LS',
    title: 'Long Sleeve Sport Wicking Tee',
    brand: 'Fieldhouse',
    category: 'Activewear',
    price: 7.1,
    colors: 6,
    sizes: MIDDLE,
  },
  {
    style: 'ST-350',
    title: 'Sport Headband Set',
    brand: 'Fieldhouse',
    category: 'Accessories',
    price: 3.3,
    colors: 3,
    sizes: ONE_SIZE,
  },
  {
    style: 'BC3001',
    title: 'Jersey Short Sleeve Tee',
    brand: 'Canyon',
    category: 'T-Shirts',
    price: 4.1,
    colors: 20,
    sizes: MIDDLE,
  },
  {
    style: 'NL3600',
    title: 'Fitted Crew',
    brand: 'Upper Mill',
    category: 'T-Shirts',
    price: 3.9,
    colors: 14,
    sizes: MIDDLE,
  },
  {
    style: 'K500',
    title: 'Easy Care Polo',
    brand: 'Harbor & Pine',
    category: 'Polos',
    price: 12.6,
    colors: 9,
    sizes: ADULT,
  },
  {
    style: 'G500',
    title: 'Heavy Cotton Tee',
    brand: 'Mill & Loom',
    category: 'T-Shirts',
    price: 2.7,
    colors: 15,
    sizes: MIDDLE,
  },
  {
    style: '5000',
    title: 'Heavy Cotton Crew',
    brand: 'Mill & Loom',
    category: 'T-Shirts',
    price: 2.6,
    colors: 16,
    sizes: MIDDLE,
  },
  {
    style: '64000',
    title: 'Soft Ringspun Crew',
    brand: 'Mill & Loom',
    category: 'T-Shirts',
    price: 3.1,
    colors: 11,
    sizes: MIDDLE,
  },
  {
    style: 'TOTE',
    title: 'Market Tote',
    brand: 'Harbor & Pine',
    category: 'Bags',
    price: 4.4,
    colors: 4,
    sizes: ONE_SIZE,
  },
  {
    style: 'CAPXL',
    title: 'Deep Fit Cap',
    brand: 'Fieldhouse',
    category: 'Caps',
    price: 8.8,
    colors: 5,
    sizes: ONE_SIZE,
  },
]

// Display name and the short name under which the catalogue itself files the colour.
const BASE_COLORS = [
  ['Athletic Heather', 'Athletic Hthr'],
  ['Jet Black', 'Jet Black'],
  ['True Royal', 'True Royal'],
  ['Dark Heather Grey', 'Dk Hthr Grey'],
  ['White', 'White'],
  ['Forest Green', 'Forest Green'],
  ['Cardinal', 'Cardinal'],
  ['Aquatic Blue', 'Aquatic Blue'],
] as const
const TONES = ['', 'Faded ', 'Deep ', 'Frosted ', 'Neon ', 'Vintage ', 'Pale ', 'Washed '] as const

function colorAt(index: number): { display: string; catalog: string } {
  const [display, catalog] = BASE_COLORS[index % BASE_COLORS.length] ?? BASE_COLORS[0]
  const tone = TONES[Math.floor(index / BASE_COLORS.length) % TONES.length] ?? ''
  return { display: tone + display, catalog: tone + catalog }
}

/** The rows of every style whose name starts with `style`, as the real service returns them. */
export function rowsOf(style: string, account: Account = CREDENTIALS): Row[] {
  return STYLES.filter((entry) => entry.style.startsWith(style)).flatMap((entry) => rowsOfEntry(entry, account))
}

function rowsOfEntry(entry: Style, account: Account): Row[] {
  const rows: Row[] = []
  for (let color = 0; color < entry.colors; color++) {
    entry.sizes.forEach((size, sizeIndex) => {
      rows.push(makeRow(entry, account, color, size, sizeIndex))
    })
  }
  return rows
}

function makeRow(entry: Style, account: Account, colorIndex: number, size: string, sizeIndex: number): Row {
  const { display, catalog } = colorAt(colorIndex)
  const factor = account.customer_number === OTHER_CREDENTIALS.customer_number ? 2 : 1
  const piece = (entry.price + Math.max(0, sizeIndex - 5) * 1.5) * factor
  const onSale = colorIndex % 5 === 4
  const inventoryKey = 1000 * (STYLES.indexOf(entry) + 1) + colorIndex
  const image = (name: string) =>
    `https://images.supplier-a.example/catalog/${entry.style}/${catalog.replaceAll(' ', '_')}/${name}.jpg`
  return {
    productBasicInfo: {
      availableSizes: entry.sizes.join(', '),
      brandName: entry.brand,
      caseSize: '72',
      catalogColor: catalog,
      color: display,
      inventoryKey: String(inventoryKey),
      keywords: `${entry.category}, cotton, unisex, crew, basics, ${entry.brand}, decorated apparel, screen print, embroidery`,
      pieceWeight: (0.3 + sizeIndex * 0.02).toFixed(4),
      productDescription: DESCRIPTION,
      productStatus: colorIndex % 11 === 10 ? 'Discontinued' : 'Active',
      productTitle: `${entry.brand}® ${entry.title}. ${entry.style}`,
      size,
      sizeIndex: String(sizeIndex + 1),
      style: entry.style,
      uniqueKey: `${inventoryKey}${sizeIndex + 1}`,
      category: entry.category,
    },
    productImageInfo: {
      brandLogoImage: 'https://images.supplier-a.example/brands/logo_for_light_and_dark_backgrounds.jpg',
      colorProductImage: image('model_front_full'),
      colorProductImageThumbnail: image('model_front_thumbnail'),
      colorSquareImage: image('colour_square'),
      colorSwatchImage: image('colour_swatch'),
      productImage: `https://images.supplier-a.example/catalog/${entry.style}/product.jpg`,
      specSheet: `https://images.supplier-a.example/catalog/${entry.style}/specification_sheet.pdf`,
      thumbnailImage: `https://images.supplier-a.example/catalog/${entry.style}/product_thumbnail.jpg`,
      titleImage: `https://images.supplier-a.example/catalog/${entry.style}/title.jpg`,
      frontModel: image('model_front'),
      backModel: image('model_back'),
      sideModel: image('model_side'),
      frontFlat: image('flat_front'),
      backFlat: image('flat_back'),
    },
    productPriceInfo: {
      piecePrice: piece.toFixed(2),
      ...(onSale ? { pieceSalePrice: (piece * 0.8).toFixed(2) } : {}),
      dozenPrice: (piece * 0.95).toFixed(2),
      dozenSalePrice: onSale ? (piece * 0.78).toFixed(2) : '',
      casePrice: (piece * 0.9).toFixed(2),
      caseSalePrice: onSale ? (piece * 0.75).toFixed(2) : '0.00',
      priceCode: 'C',
      priceText: 'Price varies by size: extended sizes cost more.',
      ...(onSale ? { saleStartDate: '2026-11-01', saleEndDate: '2026-12-31' } : {}),
    },
  }
}

const DESCRIPTION =
  'An everyday favourite that feels like one you have owned for years, at a price that suits a large run. ' +
  '4.5-ounce, 100% combed ring spun cotton, 30 singles; heathers hold up to 10% polyester. Removable tag for ' +
  'comfort and relabelling. Shoulder-to-shoulder taping, coverseamed neck, double-needle sleeves and hem. ' +
  '"Athletic" colours are dyed after knitting & may differ slightly from lot to lot; order <all> of a job at once. ' +
  'Please note: this product is transitioning to a new label, and your order may hold a mix of both. Size down for a ' +
  'closer fit. Suited to screen print, transfer and embroidery; test heat first, since some shades change at 320 °F. ' +
  'Garments are folded and packed by the dozen, and loose pieces are pulled from open cases at the piece price.'
