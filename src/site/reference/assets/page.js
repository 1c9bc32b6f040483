const TOKEN = 'api-token'
const LANGUAGE = 'language'
/** Limits the shown part of a body: browsers lay out longer texts slowly. */
const SHOWN_CHARACTERS = 200_000

const all = (selector, root = document) => [...root.querySelectorAll(selector)]
const one = (selector, root = document) => root.querySelector(selector)

document.documentElement.classList.add('js')
for (const element of all('[data-origin]')) element.textContent = location.origin

/* The token: kept for this tab, and sent only to this origin. */
const authorize = one('#authorize')
const tokenInput = one('#token')
const authorizeButton = one('button', authorize)
const tokenStatus = one('[role=status]', authorize)

authorize.addEventListener('submit', async (event) => {
  event.preventDefault()
  if (sessionStorage.getItem(TOKEN) !== null) {
    tokenInput.value = ''
    return dropToken()
  }
  const token = tokenInput.value.trim()
  if (!/^[0-9a-f]{64}$/i.test(token)) return dropToken('A token is 64 hexadecimal characters.')
  sessionStorage.setItem(TOKEN, token)
  await showToken()
})

/** @param reason shown where the token was refused */
function dropToken(reason) {
  sessionStorage.removeItem(TOKEN)
  showToken()
  if (reason) tokenStatus.textContent = reason
  tokenInput.focus()
}

/** Shows whether there is a token, and whose it is. */
async function showToken() {
  const token = sessionStorage.getItem(TOKEN)
  authorize.classList.toggle('authorized', token !== null)
  tokenInput.disabled = token !== null
  authorizeButton.textContent = token === null ? 'Authorize' : 'Forget'
  tokenStatus.textContent = token === null ? 'Kept for this tab only.' : 'Authorized for this tab.'
  if (token === null) return
  tokenInput.value = token
  const { status, body } = await send('GET', '/api/v1/me')
  if (token !== sessionStorage.getItem(TOKEN)) return
  if (status === 401) dropToken('The API does not accept this token.')
  const { company } = status === 200 ? JSON.parse(body) : {}
  if (company) tokenStatus.textContent = `Authorized for this tab: ${company.name}.`
}

/** @returns status 0 when there was no response; also with a `problem` where a header cannot be sent */
async function send(method, path, { body, headers: given = {} } = {}) {
  const start = performance.now()
  const authorization = `Bearer ${sessionStorage.getItem(TOKEN)}`
  const type = body !== undefined && { 'content-type': 'application/json' }
  let headers
  try {
    headers = new Headers({ authorization, ...type, ...given })
  } catch (error) {
    return { status: 0, body: '', problem: error.message }
  }
  try {
    const response = await fetch(path, { method, headers, body })
    const text = await response.text()
    return { status: response.status, body: text, ms: Math.round(performance.now() - start) }
  } catch {
    return { status: 0, body: '', ms: Math.round(performance.now() - start) }
  }
}

/* The language of the examples, for the whole page. */
function chooseLanguage(language) {
  document.documentElement.dataset.language = language
  for (const tab of all('[role=tab]')) {
    const isSelected = tab.dataset.language === language
    tab.setAttribute('aria-selected', String(isSelected))
    tab.tabIndex = isSelected ? 0 : -1
  }
}

document.addEventListener('keydown', (event) => {
  const tab = event.target.closest('[role=tab]')
  if (!tab || !['ArrowLeft', 'ArrowRight'].includes(event.key)) return
  const tabs = all('[role=tab]', tab.parentElement)
  const step = event.key === 'ArrowRight' ? 1 : tabs.length - 1
  const next = tabs[(tabs.indexOf(tab) + step) % tabs.length]
  next.click()
  next.focus()
})

/* The clicks. The examples above the reader change their height, so that the clicked one is held in its place. */
document.addEventListener('click', (event) => {
  const target = event.target.closest('button, #links a')
  if (target?.matches('[role=tab]')) {
    const { top } = target.getBoundingClientRect()
    chooseLanguage(target.dataset.language)
    localStorage.setItem(LANGUAGE, target.dataset.language)
    scrollBy({ top: target.getBoundingClientRect().top - top, behavior: 'instant' })
  } else if (target?.matches('.copy')) copyRequest(target)
  else if (target?.matches('.try > button')) openForm(target)
  else if (target?.matches('#menu')) showMenu(target.getAttribute('aria-expanded') === 'false')
  else if (target?.matches('#links a')) showMenu(false)
})

async function copyRequest(button) {
  const { language } = document.documentElement.dataset
  const code = one(`pre[data-language=${language}]`, button.closest('.panel'))
  try {
    await navigator.clipboard.writeText(code.textContent)
    button.textContent = 'Copied'
  } catch {
    // Browsers refuse it over http and where the reader has denied it.
    getSelection().selectAllChildren(code)
    button.textContent = 'Selected'
  }
  setTimeout(() => {
    button.textContent = 'Copy'
  }, 1500)
}

function showMenu(isShown) {
  one('#menu').setAttribute('aria-expanded', String(isShown))
  one('#links').classList.toggle('shown', isShown)
}

/* Search: the links of the sections that contain every word. */
const search = one('#search')
const found = one('#found')
const links = all('#links a')
const textOf = new Map()

function searchedText(link) {
  // A guide is a page of its own: only its title is searched.
  const id = link.hash.slice(1) || link.pathname
  if (!textOf.has(id)) {
    const section = document.getElementById(id)
    const text = section ? `${section.dataset.path ?? ''} ${one('.text', section).textContent}` : ''
    textOf.set(id, `${link.textContent} ${text}`.toLowerCase())
  }
  return textOf.get(id)
}

function filterLinks() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean)
  let count = 0
  for (const link of links) {
    const isFound = words.every((word) => searchedText(link).includes(word))
    link.parentElement.hidden = !isFound
    if (isFound) count += 1
  }
  for (const group of all('.group')) group.hidden = all('li:not([hidden])', group).length === 0
  found.textContent = words.length === 0 ? '' : count === 1 ? '1 section found' : `${count} sections found`
  if (words.length > 0) showMenu(true)
}

search.addEventListener('input', filterLinks)
search.addEventListener('keydown', (event) => {
  if (event.key === 'Enter') one('#links li:not([hidden]) a')?.click()
  if (event.key !== 'Escape') return
  search.value = ''
  filterLinks()
})
document.addEventListener('keydown', (event) => {
  if (event.key !== '/' || event.target.matches('input, textarea') || event.ctrlKey || event.metaKey) return
  event.preventDefault()
  search.focus()
})

/* The link of the section that is read. */
const list = one('#links')

/** Scrolls the list only, and not the page. */
function showInList(link) {
  const { top, bottom } = link.getBoundingClientRect()
  const box = list.getBoundingClientRect()
  if (top < box.top) list.scrollTop -= box.top - top
  else if (bottom > box.bottom) list.scrollTop += bottom - box.bottom
}

const observer = new IntersectionObserver(
  (entries) => {
    const shown = entries.find(({ isIntersecting }) => isIntersecting)
    if (!shown) return
    for (const link of links) {
      const isCurrent = link.hash === `#${shown.target.id}`
      if (isCurrent) link.setAttribute('aria-current', 'true')
      else link.removeAttribute('aria-current')
      if (isCurrent && search.value === '') showInList(link)
    }
  },
  { rootMargin: '-10% 0px -85% 0px' },
)
for (const section of all('main section')) observer.observe(section)

/* A form that sends the request of an operation, filled with its example. */
function openForm(button) {
  const section = button.closest('.operation')
  const { method, path } = section.dataset
  const inputs = JSON.parse(section.dataset.inputs)
  const form = make('form', { autocomplete: 'off' })
  for (const { name, required, example = '' } of inputs) {
    const label = make('label', {}, `${name}${required ? ' (required)' : ''} `)
    label.append(make('input', { name, value: String(example), spellcheck: false }))
    form.append(label)
  }
  const example = section.dataset.body
  if (example !== undefined) {
    const label = make('label', {}, 'Body ')
    const rows = Math.min(20, example.split('\n').length)
    label.append(make('textarea', { name: 'body', rows, value: example, spellcheck: false }))
    form.append(label)
  }
  const result = make('div', { className: 'result', role: 'status' })
  const warning = method === 'GET' ? [] : [make('p', {}, 'Sends a real request: it changes the data of the company.')]
  form.append(...warning, make('button', {}, 'Send'), result)
  let isSending = false
  form.addEventListener('submit', async (event) => {
    event.preventDefault()
    // A double click would create two objects.
    if (isSending) return
    if (sessionStorage.getItem(TOKEN) === null) {
      result.replaceChildren(make('p', {}, 'Authorize first, with an API token.'))
      tokenInput.focus()
      return
    }
    isSending = true
    result.replaceChildren(make('p', {}, 'Sending…'))
    const values = inputs.map((input) => ({ ...input, value: form.elements.namedItem(input.name).value }))
    const headers = Object.fromEntries(listPairs(values, 'header'))
    const sent = { body: form.elements.body?.value, headers }
    const { status, body, ms, problem } = await send(method, addressOf(path, values), sent)
    isSending = false
    const line = status === 0 ? (problem ?? 'No response.') : `${status} in ${ms} ms`
    const output = make('pre', { tabIndex: 0, role: 'group', ariaLabel: 'Response body' })
    output.append(make('code', {}, formatBody(body).slice(0, SHOWN_CHARACTERS)))
    result.replaceChildren(make('p', { className: 'line' }, line), ...(body === '' ? [] : [output]))
  })
  button.replaceWith(form)
  one('input, textarea, button', form).focus()
}

/** The names and values of the inputs of one place that are filled in. */
function listPairs(values, place) {
  return values.filter((each) => each.place === place && each.value !== '').map(({ name, value }) => [name, value])
}

function addressOf(path, values) {
  const inPath = Object.fromEntries(listPairs(values, 'path'))
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name) => encodeURIComponent(inPath[name] ?? ''))
  const query = new URLSearchParams(listPairs(values, 'query')).toString()
  return `/api/v1${filled}${query && `?${query}`}`
}

function formatBody(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2)
  } catch {
    return text
  }
}

function make(tag, properties, text = '') {
  return Object.assign(document.createElement(tag), { textContent: text }, properties)
}

const stored = localStorage.getItem(LANGUAGE)
if (all('[role=tab]').some((tab) => tab.dataset.language === stored)) chooseLanguage(stored)
showToken()
