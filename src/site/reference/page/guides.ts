import { type Html, html } from './html.ts'
import { renderMarkdown } from './markdown.ts'

/** The guides by their readers, in the order in which they are listed; each is `src/site/guides/NAME.md`. */
export const GUIDES: Record<string, readonly string[]> = {
  Integrators: ['first-request', 'syncing', 'errors', 'rate-limits', 'mail', 'webhooks', 'files', 'versions'],
  Operators: [
    'deploy',
    'secrets',
    'companies',
    'integrations',
    'backups',
    'databases',
    'monitoring',
    'upgrades',
    'costs',
  ],
  Engineers: ['architecture', 'decisions', 'performance', 'reliability'],
}

/** The Markdown of a guide. */
export interface Guide {
  name: string
  text: string
}

export const titleOf = ({ text }: Guide): string => /^# (.+)$/m.exec(text)?.[1] ?? ''

/** The first paragraph: what the reader gets. */
export const promiseOf = ({ text }: Guide): string =>
  (/^# .+\n\n((?:.+\n)+)/.exec(text)?.[1] ?? '').trim().replaceAll('\n', ' ')

/** A page of the reference's look, without a script. @param all for the links beside it */
export function renderGuidePage(guide: Guide, all: readonly Guide[]): string {
  const title = titleOf(guide)
  // In the repository guides link to each other's files.
  const text = guide.text.replaceAll(/<!--.*?-->\n*/gs, '').replaceAll(/\]\(([a-z-]+)\.md(#[\w-]+)?\)/g, ']($1$2)')
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title}: guide</title>
<meta name="description" content="${promiseOf(guide)}">
<link rel="icon" href="/favicon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/page.css">
</head>
<body class="guides">
<a class="skip" href="#content">Skip to the content</a>
<nav aria-label="Guides">
<p class="brand"><a href="/">Reference</a></p>
<div id="links">${renderGuideLinks(all, guide.name)}</div>
</nav>
<main id="content"><section class="guide"><div class="text">${renderMarkdown(text)}</div></section></main>
</body>
</html>
`.text
}

/** Links to all guides, a group for each kind of reader. @param current the one that is shown */
export function renderGuideLinks(all: readonly Guide[], current?: string): Html {
  const groups = Object.entries(GUIDES).map(([readers, names]) => {
    const links = all.filter(({ name }) => names.includes(name))
    return html`<div class="group"><h2>Guides for ${readers.toLowerCase()}</h2><ul>${names.map((name) =>
      links
        .filter((guide) => guide.name === name)
        .map(
          (guide) =>
            html`<li><a href="/guides/${name}"${name === current && html` aria-current="page"`}><span>${titleOf(guide)}</span></a></li>`,
        ),
    )}</ul></div>\n`
  })
  return html`${groups}`
}

/** The page that lists the guides. */
export function guideIndex(all: readonly Guide[]): Guide {
  const sections = Object.entries(GUIDES).map(([readers, names]) => {
    const links = names.flatMap((name) => all.filter((guide) => guide.name === name))
    const items = links.map((guide) => `- [${titleOf(guide)}](${guide.name}.md): ${promiseOf(guide)}`)
    return `## For ${readers.toLowerCase()}\n\n${items.join('\n')}`
  })
  return {
    name: 'index',
    text: `# Guides\n\nYou find the guide for what you want to do.\n\n${sections.join('\n\n')}\n`,
  }
}

/** Lists the guides for `llms.txt`. */
export const listGuides = (all: readonly Guide[]): string =>
  Object.values(GUIDES)
    .flat()
    .flatMap((name) => all.filter((guide) => guide.name === name))
    .map((guide) => `- [${titleOf(guide)}](/guides/${guide.name}.md): ${promiseOf(guide)}`)
    .join('\n')
