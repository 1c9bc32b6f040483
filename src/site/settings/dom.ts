export type Child = Node | string | number | null | undefined | false | readonly Child[]
type Attribute = string | number | boolean | null | undefined | ((event: Event) => void)

/**
 * Creates an element with attributes and children. Text becomes text nodes: no value is ever read as markup. Functions
 * listen to the event of their name; `true` sets an attribute without a value, `false` and null none.
 */
export function el<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Record<string, Attribute> = {},
  ...children: Child[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag)
  setAttributes(element, attributes)
  append(element, children)
  return element
}

/** Creates an element of SVG in the same way. */
export function svg(tag: string, attributes: Record<string, Attribute> = {}, ...children: Child[]): SVGElement {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag)
  setAttributes(element, attributes)
  append(element, children)
  return element
}

function setAttributes(element: Element, attributes: Record<string, Attribute>): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') element.addEventListener(name, value)
    else if (value === true) element.setAttribute(name, '')
    else if (value !== false && value != null) element.setAttribute(name, String(value))
  }
}

export function append(parent: Element, children: readonly Child[]): void {
  for (const child of children) {
    if (Array.isArray(child)) append(parent, child)
    else if (child instanceof Node) parent.append(child)
    else if (child !== false && child != null) parent.append(String(child))
  }
}

export function replace(parent: Element, ...children: Child[]): void {
  parent.replaceChildren()
  append(parent, children)
}

/** Finds an element of `settings.html` by id. */
export function byId(id: string): HTMLElement {
  const element = document.getElementById(id)
  if (!element) throw new Error(`There is no #${id}`)
  return element
}

let lastId = 0

/** Returns an id that no other element of the page has. */
export function newId(): string {
  lastId += 1
  return `e${lastId}`
}

/** Announces a finished action to screen readers, and shows it for a few seconds. */
export function announce(text: string): void {
  const message = el('p', {}, text)
  byId('status').replaceChildren(message)
  setTimeout(() => message.remove(), 6_000)
}

const DATE_TIME = new Intl.DateTimeFormat('en', { dateStyle: 'medium', timeStyle: 'short' })
const RELATIVE = new Intl.RelativeTimeFormat('en', { numeric: 'auto' })
const UNITS = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
] as const

/** Shows a time of the API in the time zone of the reader. */
export function time(iso: string): HTMLElement {
  return el('time', { datetime: iso, title: iso }, DATE_TIME.format(new Date(iso)))
}

/** Shows a time as its distance from now, such as `3 hours ago`. */
export function ago(iso: string): HTMLElement {
  const distance = Date.parse(iso) - Date.now()
  const [unit, length] = UNITS.find(([, length]) => Math.abs(distance) >= length) ?? ['minute', 60_000]
  const text = Math.abs(distance) < 60_000 ? 'just now' : RELATIVE.format(Math.trunc(distance / length), unit)
  return el('time', { datetime: iso, title: DATE_TIME.format(new Date(iso)) }, text)
}

/**
 * Creates a button.
 *
 * @param of the object of its action, which completes its name for screen readers if others have the same label
 */
export function button(
  label: string,
  click: () => void,
  { of, look }: { of?: string; look?: 'primary' | 'danger' | false } = {},
): HTMLButtonElement {
  const name = of !== undefined && `${label}: ${of}`
  return el('button', { type: 'button', class: look, 'aria-label': name, click }, label)
}

export type Tone = 'good' | 'bad' | 'warn' | 'quiet'

export function badge(tone: Tone, text: string): HTMLElement {
  return el('span', { class: `badge ${tone}` }, text)
}

export function count(number: number, noun: string): string {
  return `${number.toLocaleString('en')} ${noun}${number === 1 ? '' : 's'}`
}
