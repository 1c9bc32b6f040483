export type Child = Node | string | number | null | undefined | false | readonly Child[]
export type Attributes = Record<string, string | number | boolean | null | undefined | ((event: Event) => void)>

/**
 * Creates an element with attributes, which may be left out, and children. Text becomes text nodes: no value is ever
 * read as markup. Functions listen to the event of their name; `true` sets an attribute without a value, `false` and
 * null none.
 */
export function el<Tag extends keyof HTMLElementTagNameMap>(tag: Tag, first?: Attributes | Child, ...rest: Child[]) {
  const element = document.createElement(tag)
  const [attributes, children]: [Attributes, Child] = isAttributes(first) ? [first, rest] : [{}, [first, rest]]
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') element.addEventListener(name, value)
    else if (value !== false && value != null) element.setAttribute(name, value === true ? '' : String(value))
  }
  element.append(...nodesOf(children))
  return element
}

function isAttributes(value: Attributes | Child): value is Attributes {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Node)
}

function nodesOf(child: Child): (Node | string)[] {
  if (Array.isArray(child)) return child.flatMap(nodesOf)
  if (child instanceof Node) return [child]
  return child === false || child == null ? [] : [String(child)]
}

export function replace(parent: Element, ...children: Child[]): void {
  parent.replaceChildren(...nodesOf(children))
}

export function byId(id: string): HTMLElement {
  const element = document.getElementById(id)
  if (!element) throw new Error(`There is no #${id}`)
  return element
}

/** Announces a finished action to screen readers, and shows it for a few seconds. */
export function announce(text: string): void {
  const message = el('p', text)
  byId('status').replaceChildren(message)
  setTimeout(() => message.remove(), 6_000)
}

const DATE_TIME = new Intl.DateTimeFormat('en', { dateStyle: 'medium', timeStyle: 'short' })
const RELATIVE = new Intl.RelativeTimeFormat('en', { numeric: 'always' })
export const DAY_MS = 86_400_000
const UNITS = [
  ['day', DAY_MS],
  ['hour', 3_600_000],
  ['minute', 60_000],
] as const

/** Shows a time of the API in the time zone of the reader. */
export function time(iso: string): HTMLElement {
  return el('time', { datetime: iso, title: iso }, DATE_TIME.format(new Date(iso)))
}

export function ago(iso: string): HTMLElement {
  const distance = Date.parse(iso) - Date.now()
  const unit = UNITS.find(([, length]) => Math.abs(distance) >= length)
  const text = unit ? RELATIVE.format(Math.trunc(distance / unit[1]), unit[0]) : 'just now'
  return el('time', { datetime: iso, title: DATE_TIME.format(new Date(iso)) }, text)
}

export type Look = 'primary' | 'danger' | false | undefined

/** Creates a button. `of` completes its name for screen readers where others have the same label. */
export function button(label: string, click: () => void, look?: Look, of?: string): HTMLButtonElement {
  const name = of !== undefined && `${label}: ${of}`
  return el('button', { type: 'button', class: look, 'aria-label': name, click }, label)
}

export function count(number: number, noun: string): string {
  return `${number.toLocaleString('en')} ${noun}${number === 1 ? '' : 's'}`
}

export function chips(codes: readonly string[]): HTMLElement {
  const parts = codes.map((code) => [el('code', code), ' '])
  return el('p', { class: 'chips' }, parts)
}

export function table(headings: readonly string[], body: HTMLElement, caption?: string): HTMLTableElement {
  const cells = headings.map((heading) => el('th', { scope: 'col' }, heading))
  return el('table', caption && el('caption', { class: 'hidden' }, caption), el('thead', el('tr', cells)), body)
}

export function row(...parts: Child[]): HTMLElement {
  const cells = parts.map((part) => (part instanceof HTMLTableCellElement ? part : el('td', part)))
  return el('tr', cells)
}
