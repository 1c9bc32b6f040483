/** Markup that is safe to include unescaped. */
export class Html {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

export type Content = Html | string | number | false | null | undefined | readonly Content[]

const ESCAPES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }

/** A template of markup: values are escaped, lists joined; `false`, null and undefined are omitted. */
export function html(parts: TemplateStringsArray, ...values: readonly Content[]): Html {
  return new Html(parts.reduce((text, part, index) => text + write(values[index - 1]) + part))
}

function write(content: Content): string {
  if (content instanceof Html) return content.text
  if (Array.isArray(content)) return content.map(write).join('')
  if (content === false || content === null || content === undefined) return ''
  return String(content).replaceAll(/[&<>"']/g, (character) => ESCAPES[character] ?? character)
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
  const marked: Content[] = []
  let end = 0
  for (const { 0: text, index, groups } of code.matchAll(TOKEN)) {
    const [kind] = Object.entries(groups ?? {}).find(([, found]) => found !== undefined) ?? ['string']
    marked.push(code.slice(end, index), html`<span class="${kind}">${text}</span>`)
    end = index + text.length
  }
  return html`${marked}${code.slice(end)}`
}
