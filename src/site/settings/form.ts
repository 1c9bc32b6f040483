import { ApiError } from '../../client/errors.ts'
import { showError } from './api.ts'
import { type Attributes, button, type Child, el, type Look, replace } from './dom.ts'

/** The values of a choice with their labels. Values that are numbers come first, in their order. */
export type Options = Readonly<Record<string, string>>

/** A button, and the form in a dialog that it opens. */
export interface Action {
  label: string
  look?: Look
  /** The title of the dialog. Default: the label. */
  title?: string
  /** The label of the submit button. Default: the label. */
  submit?: string
  /** Explanations, of which texts become paragraphs, and fields. */
  content(): readonly Child[]
  /** Content passed to `reveal` replaces the form until the reader closes it; without it the dialog closes. */
  send(data: FormData, reveal: (content: Child) => void): Promise<unknown>
  /** Announced when the dialog is closed after a successful submission, unless `send` resolves to another text. */
  done: string
}

/** Opens a modal dialog with a form. An error of `send` is shown in it, and the form can be sent again. */
export function openForm(action: Action, refresh: (done: string | null) => void): void {
  const { label, look, title = label, submit = label, content, send, done } = action
  const titleId = crypto.randomUUID()
  const dialog = el('dialog', { 'aria-labelledby': titleId })
  const close = () => dialog.close()
  const errors = el('div')
  const sender = el('button', { class: look === 'danger' ? look : 'primary' }, submit)
  const canceler = button('Cancel', close)
  const buttons = el('div', { class: 'actions' }, sender, canceler)
  const paragraphs = content().map((part) => (typeof part === 'string' ? el('p', part) : part))
  const form = el('form', { autocomplete: 'off' }, paragraphs, errors, buttons)
  /** Null after a failure that may have been carried out all the same, or shows that the view is old. */
  let outcome: string | null | undefined

  /** A secret that is created or shown would be lost: only its own button closes a locked dialog. */
  function lock(locked: boolean): void {
    sender.disabled = locked
    canceler.disabled = locked
    dialog.setAttribute('closedby', locked ? 'none' : 'closerequest')
  }

  form.addEventListener('submit', async (event) => {
    event.preventDefault()
    // Enter in a shown secret submits, too.
    if (sender.disabled) return
    lock(true)
    errors.replaceChildren()
    const reveal = (content: Child) => {
      replace(form, content, el('div', { class: 'actions' }, button('Done', close, 'primary')))
      form.querySelector<HTMLElement>('button, input')?.focus()
    }
    try {
      const sent = await send(new FormData(form), reveal)
      outcome = typeof sent === 'string' ? sent : done
      if (form.contains(sender)) close()
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 400)) outcome = null
      errors.append(showError(error))
      lock(false)
      sender.focus()
    }
  })
  // For browsers without `closedby`.
  dialog.addEventListener('cancel', (event) => {
    if (sender.disabled) event.preventDefault()
  })
  dialog.addEventListener('close', () => {
    dialog.remove()
    if (outcome !== undefined) refresh(outcome)
  })
  dialog.append(el('h2', { id: titleId }, title), form)
  document.body.append(dialog)
  dialog.showModal()
}

export function field(label: string, input: HTMLInputElement | HTMLSelectElement, hint?: Child): HTMLElement {
  const id = crypto.randomUUID()
  input.id = id
  if (hint) input.setAttribute('aria-describedby', `${id}-hint`)
  const shownHint = hint && el('p', { class: 'hint', id: `${id}-hint` }, hint)
  return el('div', { class: 'field' }, el('label', { for: id }, label), input, shownHint)
}

export function input(label: string, attributes: Attributes, hint?: Child): HTMLElement {
  return field(label, el('input', attributes), hint)
}

export function fieldset(legend: string, ...content: Child[]): HTMLElement {
  return el('fieldset', el('legend', legend), content)
}

export function select(name: string, options: readonly (readonly [value: string, label: string])[], chosen?: string) {
  const elements = options.map(([value, label]) => el('option', { value, selected: value === chosen }, label))
  return el('select', { name }, elements)
}

export function choice(label: string, name: string, options: Options, chosen?: string, hint?: Child): HTMLElement {
  return field(label, select(name, Object.entries(options), chosen), hint)
}

export function text(data: FormData, name: string): string {
  return String(data.get(name))
}

export function checkbox(name: string, value: string, label: Child, checked = false): HTMLElement {
  return el('label', { class: 'check' }, el('input', { type: 'checkbox', name, value, checked }), el('span', label))
}

/** Checkboxes for values such as `clients:read`, grouped by their first part. */
export function checkboxes(name: string, values: readonly string[], chosen: readonly string[]): HTMLElement {
  const groups = Map.groupBy(values, (value) => value.replace(/[.:].*/, ''))
  const show = (value: string) => checkbox(name, value, el('code', value), chosen.includes(value))
  const columns = Array.from(groups.values(), (group) => el('div', group.map(show)))
  return el('div', { class: 'grid' }, columns)
}

export function checked<T extends string>(data: FormData, name: string, values: readonly T[]): T[] {
  return values.filter((value) => data.getAll(name).includes(value))
}

export function secret(what: string, label: string, text: string): Child {
  const id = crypto.randomUUID()
  const input = el('input', { id, class: 'secret', readonly: true, value: text, spellcheck: 'false' })
  input.addEventListener('focus', () => input.select())
  const status = el('span', { class: 'quiet', role: 'status' })
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text)
      status.textContent = 'Copied.'
    } catch {
      input.focus()
      status.textContent = 'Copy the selected text.'
    }
  }
  const row = el('div', { class: 'row' }, input, button('Copy', copy))
  return [
    el('p', el('strong', `Copy the ${what} now.`), ' It is not shown again.'),
    el('div', { class: 'field' }, el('label', { for: id }, label), row, status),
  ]
}
