import { html as template } from 'hono/html'
import type { HtmlEscapedString } from 'hono/utils/html'

/** Markup that is included unescaped. */
export type Html = HtmlEscapedString

export type Content = Html | string | number | false | null | undefined | readonly Content[]

/** A template of markup: values are escaped, lists joined; `false`, null and undefined are omitted. */
export function html(parts: TemplateStringsArray, ...values: readonly Content[]): Html {
  // Its result is a promise only where a value is one.
  return template(parts, ...values) as Html
}

/** The head of a page. @param root of the assets: empty for those beside the page */
export function renderHead(title: string, description: string, root: '' | '/'): Html {
  return html`<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title}</title>
<meta name="description" content="${description}">
<link rel="icon" href="${root}favicon.svg" type="image/svg+xml">
<link rel="stylesheet" href="${root}page.css">`
}

/** Matches strings, numbers and constants of several languages. */
const TOKEN =
  /(?<key>"(?:\\.|[^"\\\n])*"(?=:))|(?<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`[^`\n]*`)|(?<constant>\b(?:true|false|null|True|False|None)\b|(?<![\w.-])-?\d+(?:\.\d+)?(?![\w.-]))/g

/** Highlights a block of code, for display only. */
export function highlight(code: string): Html {
  return markUp(code, TOKEN, (token, groups) => {
    const [kind] = Object.entries(groups).find(([, found]) => found !== undefined) ?? ['string']
    return html`<span class="${kind}">${token}</span>`
  })
}

/** Renders what a pattern finds in a text, from its named groups, and all else as it is. */
function markUp(text: string, pattern: RegExp, render: (found: string, groups: NodeJS.Dict<string>) => Html): Html {
  const parts: Content[] = []
  let end = 0
  for (const { 0: found, index, groups = {} } of text.matchAll(pattern)) {
    parts.push(text.slice(end, index), render(found, groups))
    end = index + found.length
  }
  return html`${parts}${text.slice(end)}`
}

/** A part of a Markdown text under a heading of the second level; the part before the first heading has no title. */
export interface Section {
  /** The id on the page, such as `guide-rate-limit`. */
  id: string
  title: string
  text: string
}

export function splitSections(markdown: string): Section[] {
  return markdown.split(/^## /m).map((part, index) => {
    const [title = '', ...lines] = index === 0 ? ['', part] : part.split('\n')
    return { id: `guide-${slugOf(title)}`, title, text: lines.join('\n').trim() }
  })
}

/** Converts a title to a part of a URL. */
export function slugOf(title: string): string {
  return title.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-')
}

/** Renders the Markdown that this API's texts use: paragraphs, lists, tables, code, headings of three levels. */
export function renderMarkdown(markdown: string): Html {
  const blocks = markdown.trim().match(/^```[\s\S]*?^```$|(?:(?!^```)[^\n]*\S[^\n]*\n?)+/gm) ?? []
  return html`${blocks.map((block) => renderBlock(block.trimEnd()))}`
}

function renderBlock(block: string): Html {
  const lines = block.split('\n')
  if (block.startsWith('```')) return renderCode(lines.slice(1, -1).join('\n'))
  const heading = /^(#{1,3}) (.+)$/.exec(block)
  if (heading) {
    const [, { length: level } = '', title = ''] = heading
    // Headings below the title have an id, by which other pages link to them.
    return html`<h${level}${level > 1 && html` id="${slugOf(title)}"`}>${renderInline(title)}</h${level}>`
  }
  if (block.startsWith('|')) return renderTable(lines)
  if (/^(?:- |\d+\. )/.test(block)) {
    const items = block.split(/^(?:- |\d+\. )/m).slice(1)
    const list = items.map((item) => html`<li>${renderInline(item.trim())}</li>`)
    return block.startsWith('- ') ? html`<ul>${list}</ul>` : html`<ol>${list}</ol>`
  }
  return html`<p>${renderInline(block)}</p>`
}

function renderTable([head = '', , ...rows]: string[]): Html {
  const cells = (row: string) =>
    row
      .split(/(?<!\\)\|/)
      .slice(1, -1)
      .map((cell) => renderInline(cell.trim().replaceAll('\\|', '|')))
  return html`<div class="table" tabindex="0" role="group" aria-label="Table"><table>
<thead><tr>${cells(head).map((cell) => html`<th scope="col">${cell}</th>`)}</tr></thead>
<tbody>${rows.map((row) => html`<tr>${cells(row).map((cell) => html`<td>${cell}</td>`)}</tr>`)}</tbody>
</table></div>`
}

export function renderCode(code: string, label = 'Code'): Html {
  return html`<pre tabindex="0" role="group" aria-label="${label}"><code>${highlight(code)}</code></pre>`
}

const INLINE = /`(?<code>[^`]+)`|\*\*(?<strong>[^*]+)\*\*|\[(?<label>[^\]]+)\]\((?<address>[^)\s]+)\)/g

/** Text of one paragraph: `code`, **strong** and [links](#id). */
export function renderInline(text: string): Html {
  return markUp(text, INLINE, (_, { code, strong, label, address }) => {
    if (code) return html`<code>${code}</code>`
    return strong ? html`<strong>${strong}</strong>` : html`<a href="${address}">${label}</a>`
  })
}
