import { accounting } from './accounting.ts'
import { type Me, openCompany, readMe, showError, showLoaded } from './api.ts'
import { announce, byId, type Child, el, replace } from './dom.ts'
import { select } from './form.ts'
import { integrations } from './integrations.ts'
import { audit, members } from './people.ts'
import { tokens } from './tokens.ts'
import { usage } from './usage.ts'
import type { View } from './view.ts'
import { webhooks } from './webhooks.ts'

type Company = Me['companies'][number]

const VIEWS: readonly [View, ...View[]] = [tokens, usage, integrations, webhooks, accounting, members, audit]
const main = byId('content')

// The link's own address cannot do this, since the URL's hash names the view.
byId('skip').addEventListener('click', (event) => {
  event.preventDefault()
  main.focus()
})
void start()

async function start(): Promise<void> {
  try {
    const me = await readMe()
    showAccount(me)
    const [first] = me.companies
    if (!first) return showAlone(el('p', 'There is no company yet.'))
    const choice = showCompanies(me.companies)
    const show = (movesFocus: boolean) => {
      const named = new URLSearchParams(location.search).get('company')
      // An operator's list ends after 1,000 companies.
      const isOther = me.operator && /^[1-9]\d{0,14}$/.test(named ?? '')
      const other = isOther ? ({ id: Number(named), name: `Company ${named}`, role: 'operator' } as const) : undefined
      const company = named === null ? first : (me.companies.find(({ id }) => String(id) === named) ?? other)
      if (!company) {
        choice.value = ''
        replace(byId('links'))
        return showAlone(el('p', `Company ${named} is not in your list.`))
      }
      choice.value = String(company.id)
      return showView(company, me.actor, movesFocus, show)
    }
    choice.addEventListener('change', () => {
      history.pushState(null, '', `?company=${choice.value}${location.hash}`)
      // The arrow keys change a focused choice, so it keeps the focus.
      void show(false)
    })
    addEventListener('popstate', () => {
      // A form acts on the company before; a shown secret stays.
      for (const dialog of document.querySelectorAll<HTMLDialogElement>('dialog:not([closedby=none])')) dialog.close()
      return show(true)
    })
    await show(false)
  } catch (error) {
    showAlone(showError(error))
  }
}

/** Shows something in place of a view. */
function showAlone(content: Child): void {
  replace(main, el('h1', 'Developer settings'), content)
}

function showAccount({ actor, operator }: Me): void {
  // Development has no sign-in.
  const isSignedIn = !/^(localhost|127\.|\[::1\])/.test(location.hostname)
  const signOut = isSignedIn && [' ', el('a', { href: '/cdn-cgi/access/logout' }, 'Sign out')]
  replace(
    byId('account'),
    el('p', operator ? 'Operator ' : 'Signed in as ', el('span', actor)),
    el('p', el('a', { href: '/' }, 'API reference'), signOut),
  )
}

function showCompanies(companies: readonly Company[]): HTMLSelectElement {
  const options = companies.map(({ id, name }) => [String(id), name] as const)
  const choice = select('company', options)
  choice.setAttribute('aria-label', 'Company')
  replace(byId('company'), companies.length === 1 ? el('p', companies[0]?.name) : choice)
  return choice
}

/** @param show shows the view and company in the URL by then */
async function showView(company: Company, actor: string, movesFocus: boolean, show: (movesFocus: boolean) => void) {
  const isOwner = company.role !== 'developer'
  const views = VIEWS.filter((view) => isOwner || !view.isForOwners)
  const view = views.find(({ id }) => `#${id}` === location.hash) ?? VIEWS[0]
  const link = ({ id, title }: View) =>
    el('li', el('a', { href: `#${id}`, 'aria-current': id === view.id && 'page' }, title))
  replace(byId('links'), views.map(link))
  document.title = `${view.title} – ${company.name} – Developer settings`

  const title = el('h1', { tabindex: -1 }, view.title)
  const content = el('div', { class: 'view', 'aria-busy': 'true' }, el('p', { class: 'quiet' }, 'Loading…'))
  replace(main, title, el('p', { class: 'lead' }, view.lead), content)
  if (movesFocus) title.focus({ preventScroll: true })
  const refresh = (done: string | null) => {
    if (done !== null) announce(done)
    show(true)
  }
  // If the reader has moved to another view by then, the element is no longer shown.
  await showLoaded(content, view.load({ ...openCompany(company.id), isOwner, actor, refresh }))
  content.removeAttribute('aria-busy')
}
