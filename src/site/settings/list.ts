import { append, badge, type Child, el, type Tone } from './dom.ts'

interface Item {
  title: Child
  state: readonly [tone: Tone, text: string]
  /** Problems of the item. */
  problems?: readonly (string | null | false)[]
  /** Short facts, shown side by side. */
  facts: readonly Child[]
  more?: readonly Child[]
  actions: Child
}

/** A list with a row for each item, or a text for an empty one. */
export function list(label: string, rows: readonly HTMLElement[], empty = 'None.'): HTMLElement {
  return rows.length === 0 ? el('p', { class: 'empty' }, empty) : el('ul', { class: 'list', 'aria-label': label }, rows)
}

export function item({ title, state: [tone, text], problems = [], facts, more = [], actions }: Item): HTMLElement {
  return el(
    'li',
    {},
    el(
      'div',
      { class: 'item' },
      el('h2', {}, title, ' ', badge(tone, text)),
      problems.map((problem) => problem && el('p', { class: 'problem' }, problem)),
      el(
        'p',
        { class: 'facts' },
        facts.map((fact) => fact && el('span', {}, fact)),
      ),
      more,
    ),
    el('div', { class: 'actions' }, actions),
  )
}

/** Short codes such as permissions. */
export function chips(codes: readonly string[]): HTMLElement {
  return el(
    'p',
    { class: 'chips' },
    codes.map((code) => [el('code', {}, code), ' ']),
  )
}

/** A part of the view that is closed at first. */
export function fold(summary: string, content: Child): HTMLElement {
  return el('details', {}, el('summary', {}, summary), content)
}

/** A {@link fold} that is loaded when it is first opened. `load` shows its errors itself. */
export function lazyFold(summary: string, load: () => Promise<Child>): HTMLElement {
  const content = el('div')
  let isLoaded = false
  const open = async () => {
    if (isLoaded) return
    isLoaded = true
    append(content, [await load()])
  }
  return el('details', { toggle: open }, el('summary', {}, summary), content)
}
