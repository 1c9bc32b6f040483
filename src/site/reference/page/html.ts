import { raw, html as template } from 'hono/html'
import type { HtmlEscapedString } from 'hono/utils/html'
import { Marked, Renderer } from 'marked'

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

const TOKEN =
  /(?<key>"(?:\\.|[^"\\\n])*"(?=:))|(?<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`[^`\n]*`)|(?<constant>\b(?:true|false|null|True|False|None)\b|(?<![\w.-])-?\d+(?:\.\d+)?(?![\w.-]))/g

export function highlight(code: string): Html {
  const parts: Content[] = []
  let end = 0
  for (const { 0: token, index, groups = {} } of code.matchAll(TOKEN)) {
    const [kind] = Object.entries(groups).find(([, found]) => found !== undefined) ?? ['string']
    parts.push(code.slice(end, index), html`<span class="${kind}">${token}</span>`)
    end = index + token.length
  }
  return html`${parts}${code.slice(end)}`
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

export function slugOf(title: string): string {
  return title.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-')
}

/** Headings below the title have an id, by which other pages link to them. Markup within a text is shown as it is. */
const marked = new Marked({
  tokenizer: { html: () => undefined, tag: () => undefined },
  renderer: {
    code: ({ text }) => String(renderCode(text)),
    heading({ tokens, depth, text }) {
      const title = raw(this.parser.parseInline(tokens))
      return String(html`<h${depth}${depth > 1 && html` id="${slugOf(text)}"`}>${title}</h${depth}>`)
    },
    table(token) {
      const table = raw(Renderer.prototype.table.call(this, token).replaceAll(/<th\b/g, '<th scope="col"'))
      return String(html`<div class="table" tabindex="0" role="group" aria-label="Table">${table}</div>`)
    },
  },
})

export function renderMarkdown(markdown: string): Html {
  return raw(marked.parse(markdown, { async: false })) as Html
}

export function renderInline(text: string): Html {
  return raw(marked.parseInline(text, { async: false })) as Html
}

export function renderCode(code: string, label = 'Code'): Html {
  return html`<pre tabindex="0" role="group" aria-label="${label}"><code>${highlight(code)}</code></pre>`
}
