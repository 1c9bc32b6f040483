import { type Html, html, renderHead, renderMarkdown } from './html.ts'

/** The guides by their readers, in the order in which they are listed; each is `src/site/guides/NAME.md`. */
export const GUIDES: Record<string, readonly string[]> = {
  Integrators: 'first-request syncing two-way errors rate-limits mail webhooks files versions'.split(' '),
  Operators: 'deploy secrets companies integrations backups databases monitoring upgrades costs'.split(' '),
  Engineers: 'architecture decisions performance reliability'.split(' '),
}

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
  // In the repository guides link to each other's files.
  const text = guide.text.replaceAll(/<!--.*?-->\n*/gs, '').replaceAll(/\]\(([a-z-]+)\.md(#[\w-]+)?\)/g, ']($1$2)')
  return String(html`<!doctype html>
<html lang="en">
<head>
${renderHead(`${titleOf(guide)}: guide`, promiseOf(guide), '/')}
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
`)
}

const byReaders = (all: readonly Guide[]): [readers: string, guides: Guide[]][] =>
  Object.entries(GUIDES).map(([readers, names]) => [
    readers.toLowerCase(),
    names.flatMap((name) => all.filter((guide) => guide.name === name)),
  ])

/** Links to all guides, a group for each kind of reader. @param current the one that is shown */
export function renderGuideLinks(all: readonly Guide[], current?: string): Html {
  const toLink = (guide: Guide) =>
    html`<li><a href="/guides/${guide.name}"${guide.name === current && html` aria-current="page"`}><span>${titleOf(guide)}</span></a></li>`
  return html`${byReaders(all).map(
    ([readers, guides]) =>
      html`<div class="group"><h2>Guides for ${readers}</h2><ul>${guides.map(toLink)}</ul></div>\n`,
  )}`
}

export function guideIndex(all: readonly Guide[]): Guide {
  const sections = byReaders(all).map(([readers, guides]) => `## For ${readers}\n\n${listGuides(guides, '')}\n`)
  return { name: 'index', text: `# Guides\n\nYou find the guide for what you want to do.\n\n${sections.join('\n')}` }
}

/** Lists guides with what their readers get, in the order of {@link GUIDES}. @param folder of their addresses */
export const listGuides = (all: readonly Guide[], folder = '/guides/'): string =>
  byReaders(all)
    .flatMap(([, guides]) => guides)
    .map((guide) => `- [${titleOf(guide)}](${folder}${guide.name}.md): ${promiseOf(guide)}`)
    .join('\n')
