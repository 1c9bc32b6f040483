import { type Content, type Html, highlight, html } from './html.ts'

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
  if (heading) return renderHeading(heading[1]?.length ?? 3, heading[2] ?? '')
  if (block.startsWith('|')) return renderTable(lines)
  if (/^(?:- |\d+\. )/.test(block)) {
    const items = block.split(/^(?:- |\d+\. )/m).slice(1)
    const list = items.map((item) => html`<li>${renderInline(item.trim())}</li>`)
    return block.startsWith('- ') ? html`<ul>${list}</ul>` : html`<ol>${list}</ol>`
  }
  return html`<p>${renderInline(block)}</p>`
}

/** Headings below the title have an id, by which other pages link to them. */
function renderHeading(level: number, title: string): Html {
  const content = renderInline(title)
  if (level === 1) return html`<h1>${content}</h1>`
  const id = slugOf(title)
  return level === 2 ? html`<h2 id="${id}">${content}</h2>` : html`<h3 id="${id}">${content}</h3>`
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
  const parts: Content[] = []
  let end = 0
  for (const { 0: found, index, groups = {} } of text.matchAll(INLINE)) {
    parts.push(text.slice(end, index))
    if (groups.code) parts.push(html`<code>${groups.code}</code>`)
    else if (groups.strong) parts.push(html`<strong>${groups.strong}</strong>`)
    else parts.push(html`<a href="${groups.address}">${groups.label}</a>`)
    end = index + found.length
  }
  return html`${parts}${text.slice(end)}`
}
