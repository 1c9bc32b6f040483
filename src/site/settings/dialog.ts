import { showError } from './api.ts'
import { button, type Child, el, newId, replace } from './dom.ts'

interface Form {
  title: string
  /** The content above the submit button: explanations and fields. */
  content: Child
  submit: string
  /** Whether the form removes something. */
  isDangerous?: boolean
  /** @returns content that replaces the form until the reader closes it; null closes the dialog */
  send(data: FormData): Promise<Child>
  /** Called when the dialog is closed after a submission. */
  done(): void
}

/** Opens a modal dialog with a form. An error of `send` is shown in it, and the form can be sent again. */
export function openForm({ title, content, submit, isDangerous = false, send, done }: Form): void {
  const titleId = newId()
  const dialog = el('dialog', { 'aria-labelledby': titleId })
  const errors = el('div')
  const sender = el('button', { class: isDangerous ? 'danger' : 'primary' }, submit)
  const cancel = button('Cancel', () => dialog.close())
  const form = el('form', { autocomplete: 'off' }, content, errors, el('div', { class: 'actions' }, sender, cancel))
  let isSent = false

  form.addEventListener('submit', async (event) => {
    event.preventDefault()
    sender.disabled = true
    errors.replaceChildren()
    try {
      const result = await send(new FormData(form))
      isSent = true
      if (result === null) return dialog.close()
      const close = button('Done', () => dialog.close(), { look: 'primary' })
      replace(form, result, el('div', { class: 'actions' }, close))
      dialog.dataset.keep = ''
      const first = form.querySelector<HTMLElement>('button, input')
      first?.focus()
    } catch (error) {
      errors.append(showError(error))
      sender.disabled = false
    }
  })
  // A secret is shown only once, so only its button closes the dialog.
  dialog.addEventListener('cancel', (event) => {
    if ('keep' in dialog.dataset) event.preventDefault()
  })
  dialog.addEventListener('close', () => {
    dialog.remove()
    if (isSent) done()
  })
  dialog.append(el('h2', { id: titleId }, title), form)
  document.body.append(dialog)
  dialog.showModal()
}

/** A labelled input, with a hint below it. */
export function field(label: string, input: HTMLInputElement | HTMLSelectElement, hint?: Child): HTMLElement {
  const id = newId()
  input.id = id
  if (hint) input.setAttribute('aria-describedby', `${id}-hint`)
  return el(
    'div',
    { class: 'field' },
    el('label', { for: id }, label),
    input,
    hint && el('p', { class: 'hint', id: `${id}-hint` }, hint),
  )
}

export function select(name: string, options: readonly (readonly [value: string, label: string])[], chosen?: string) {
  const toOption = ([value, label]: readonly [string, string]) =>
    el('option', { value, selected: value === chosen }, label)
  return el('select', { name }, ...options.map(toOption))
}

/** @returns the value that was chosen of a `select` with these options */
export function chosen<T extends string>(data: FormData, name: string, options: readonly (readonly [T, string])[]): T {
  const option = options.find(([value]) => value === data.get(name))
  if (!option) throw new Error(`Nothing is chosen as ${name}`)
  return option[0]
}

export function checkbox(name: string, value: string, label: Child, checked = false): HTMLElement {
  return el('label', { class: 'check' }, el('input', { type: 'checkbox', name, value, checked }), el('span', {}, label))
}

/** Checkboxes for values such as `clients:read`, grouped by their first part. */
export function checkboxes(name: string, values: readonly string[], chosen: readonly string[]): HTMLElement {
  const groups = [...new Set(values.map(groupOf))]
  const toGroup = (group: string) =>
    values
      .filter((value) => groupOf(value) === group)
      .map((value) => checkbox(name, value, el('code', {}, value), chosen.includes(value)))
  return el(
    'div',
    { class: 'grid' },
    groups.map((group) => el('div', {}, toGroup(group))),
  )
}

/** @returns the values of `checkboxes` that are checked */
export function checked<T extends string>(data: FormData, name: string, values: readonly T[]): T[] {
  return values.filter((value) => data.getAll(name).includes(value))
}

function groupOf(value: string): string {
  return value.replace(/[.:].*/, '')
}

/** A text that is shown only once, with a button that copies it. */
export function secret(label: string, text: string): HTMLElement {
  const id = newId()
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
  return el(
    'div',
    { class: 'field' },
    el('label', { for: id }, label),
    el('div', { class: 'row' }, input, button('Copy', copy)),
    status,
  )
}
