import { type CompanyApi, LISTED_MAX } from './api.ts'
import { button, type Child, el } from './dom.ts'
import { type Action, openForm } from './form.ts'

export interface Scope extends CompanyApi {
  /** Whether the person may change integrations and members. */
  isOwner: boolean
  /** The email of the person, or who else acts. */
  actor: string
  /** Reads the view again and announces a finished action. */
  refresh(done: string | null): void
}

/** A part of the settings, shown at `#id`. */
export interface View {
  id: string
  title: string
  lead: string
  isForOwners?: boolean
  /** @throws the errors of {@link CompanyApi} */
  load(scope: Scope): Promise<readonly Child[]>
}

export type Part = Action | Child

export interface Item {
  title: string
  state: readonly [tone: 'good' | 'bad' | 'warn' | 'quiet', text: string]
  problems?: readonly (string | null | false)[]
  facts: readonly Child[]
  more?: readonly Child[]
  actions?: readonly Part[] | false
}

interface ListView<Row> extends Omit<View, 'load'> {
  read(scope: Scope): Promise<readonly Row[]>
  head?(scope: Scope, rows: readonly Row[]): readonly Part[]
  empty?: string
  item(row: Row, scope: Scope): Item
}

export function listView<Row>({ read, head, empty, item, ...view }: ListView<Row>): View {
  return {
    ...view,
    async load(scope) {
      const rows = await read(scope)
      const items = rows.map((row) => showItem(scope, item(row, scope)))
      const list = el('ul', { class: 'list', 'aria-label': view.title }, items)
      const shown = items.length > 0 ? list : el('p', { class: 'empty' }, empty)
      const isLong = items.length >= LISTED_MAX
      const most = LISTED_MAX.toLocaleString('en')
      const note = isLong && el('p', { class: 'quiet' }, `Of each state at most ${most} are listed.`)
      return [showParts(scope, head?.(scope, rows) ?? []), shown, note]
    },
  }
}

function showItem(scope: Scope, item: Item): HTMLElement {
  const { title, state, problems = [], facts, more = [], actions } = item
  const [tone, text] = state
  const content = [
    // A name may reverse what follows it (U+202E): it ends with its own element.
    el('h2', el('bdi', title), ' ', el('span', { class: `badge ${tone}` }, text)),
    problems.map((problem) => problem && el('p', { class: 'problem' }, problem)),
  ]
  const shownFacts = facts.map((fact) => fact && el('span', fact))
  return el(
    'li',
    el('div', { class: 'item' }, content, el('p', { class: 'facts' }, shownFacts), more),
    el('div', { class: 'actions' }, showParts(scope, actions || [], title)),
  )
}

/** Shows actions as buttons, and all else as it is. */
export function showParts(scope: Scope, parts: readonly Part[], of?: string): Child[] {
  return parts.map((part) => {
    if (!isAction(part)) return part
    return button(part.label, () => openForm(part, scope.refresh), part.look, of)
  })
}

function isAction(part: Part): part is Action {
  return typeof part === 'object' && part !== null && 'send' in part
}
