/** What the sample company is made of: words and prices of a custom-apparel shop, all invented. */

export const SAMPLE_COMPANY = { id: 1, name: 'Ridgeline Custom Apparel' }

export const STATUSES = [
  ['Quote', '#94a3b8', 'quote'],
  ['Quote sent', '#64748b', 'quote_sent'],
  ['Approved', '#0ea5e9', 'approved'],
  ['Art in progress', '#8b5cf6', 'artwork'],
  ['Proof sent', '#a855f7', 'proof_sent'],
  ['Garments ordered', '#f59e0b', 'garments_ordered'],
  ['In production', '#2563eb', 'production'],
  ['Quality check', '#14b8a6', 'quality_check'],
  ['Ready for pickup', '#22c55e', 'ready'],
  ['Completed', '#15803d', 'completed'],
  ['On hold', '#ef4444', 'on_hold'],
] as const

export const TAXES = [
  ['State sales tax', 6.25],
  ['State and city sales tax', 8.25],
  ['Out of state', 0],
] as const

/** Title, style number, supplier, lowest and highest price of one piece. */
export const GARMENTS = [
  ['Cotton tee', 'PC54', 'supplier_a', 7.5, 11],
  ['Heavyweight tee', 'PC61', 'supplier_a', 8.25, 13.5],
  ['Women’s soft tee', 'DT6002', 'supplier_a', 8.75, 14],
  ['Soft tee', 'DT6000', 'supplier_a', 8.5, 14],
  ['Performance polo', 'ST550', 'supplier_a', 18, 27],
  ['Performance long sleeve', 'ST350LS', 'supplier_a', 14.5, 21],
  ['Fleece hoodie', 'PC78H', 'supplier_a', 22, 34],
  ['Quarter-zip wind shirt', 'JST72', 'supplier_a', 32, 46],
  ['Knit polo', 'K500', 'supplier_a', 16.5, 24],
  ['Jersey tee', 'BC3001', 'supplier_b', 9.25, 15.5],
  ['Ring-spun tee', '64000', 'supplier_b', 6.75, 10.5],
  ['Crewneck sweatshirt', '18000', 'supplier_b', 17, 26],
  ['Heavy hoodie', '18500', 'supplier_b', 23.5, 36],
  ['Triblend tee', 'NL6010', 'supplier_b', 10.5, 17],
  ['Trucker cap', '112', 'supplier_b', 11, 18.5],
  ['Canvas tote', 'Q125300', 'supplier_b', 6, 9.75],
] as const

export const COLORS = [
  'Black',
  'White',
  'Navy',
  'Athletic Heather',
  'Royal',
  'Red',
  'Forest Green',
  'Maroon',
  'Charcoal',
  'Gold',
  'Sand',
  'Light Blue',
] as const

export const SIZES = ['XS', 'S', 'M', 'L', 'XL', '2XL', '3XL'] as const

/** Print method, placements and, where ink or thread has them, how many colours at most. */
export const METHODS = [
  ['screen print', ['front', 'full back', 'left chest', 'right sleeve'], 6],
  ['embroidery', ['left chest', 'cap front', 'left sleeve'], 5],
  ['heat transfer', ['full back', 'front', 'left sleeve'], 4],
  ['direct to garment', ['front', 'full back'], 1],
  ['sublimation', ['all over'], 1],
] as const

export const INKS = [
  'white',
  'black',
  'PMS 186 C',
  'PMS 2945 C',
  'PMS 348 C',
  'PMS 123 C',
  'PMS Cool Gray 6 C',
  'metallic gold',
] as const

export const FIRST_NAMES = [
  'Ines',
  'Marcus',
  'Priya',
  'Daniel',
  'Sofia',
  'Owen',
  'Lucía',
  'Hannah',
  'Tyrone',
  'Grace',
  'Mateo',
  'Ruth',
  'Søren',
  'Amara',
  'Felix',
  'Noor',
  'Carmen',
  'Jonas',
  'Wendy',
  'Andre',
] as const

export const LAST_NAMES = [
  'Duarte',
  'Whitfield',
  'Nair',
  'Okafor',
  'Lindqvist',
  'Castellano',
  'Brennan',
  'Núñez',
  'Hargrove',
  'Petrov',
  'Yamada',
  'Ellison',
  'Baptiste',
  'Kowalski',
  'Farouk',
  'Mendes',
  'Ostrander',
  'Pruitt',
  'Vance',
  'Zielinski',
] as const

export const PLACES = [
  'Harbor',
  'Maple Grove',
  'Cedar Ridge',
  'Lakeside',
  'Pine Hollow',
  'Northgate',
  'Riverbend',
  'Stonebridge',
  'Clearwater',
  'Old Mill',
  'Sunset Hill',
  'Fairview',
] as const

/** Kinds of customers: what stands behind the place, and why one pays no tax, if so. */
export const TRADES = [
  ['Rowing Club', 'Non-profit'],
  ['Elementary School', 'Public school'],
  ['Brewing Company', null],
  ['High School Boosters', 'Non-profit'],
  ['Coffee Roasters', null],
  ['Roofing & Siding', null],
  ['Little League', 'Non-profit'],
  ['Fire Department', 'Government'],
  ['Yoga Studio', null],
  ['Auto Repair', null],
  ['Community Church', 'Religious organization'],
  ['Landscaping', null],
  ['Dental Group', null],
  ['Music Festival', null],
] as const

/** Customers whose names are written in other scripts: company, first and last name. */
export const OTHER_SCRIPTS = [
  ['さくら寿司', '美咲', '佐藤'],
  ['Пекарня «Колосок»', 'Ольга', 'Иваненко'],
  ['مطعم الياسمين', 'ليلى', 'حداد'],
  ['金龙武术馆', '伟', '陈'],
  ['Ταβέρνα Ο Ήλιος', 'Νίκος', 'Παππάς'],
] as const

export const OCCASIONS = [
  'Staff shirts',
  'Spring fundraiser tees',
  'Team hoodies',
  'Regatta shirts',
  'Grand opening giveaway',
  'Summer camp tees',
  'Crew polos',
  'Anniversary caps',
  'Spirit wear',
  'Volunteer shirts',
  'Championship tees',
  'Holiday market totes',
] as const

export const PAYMENT_METHODS = ['card', 'check', 'bank transfer', 'cash'] as const
