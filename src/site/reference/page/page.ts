import { VERSION } from '../document.ts'
import { headerNameOf, responseHeaders } from '../headers.ts'
import { asObject, type JsonObject } from '../json.ts'
import type { Operation, Reference, Response } from '../reference.ts'
import { componentOf, renderFields, renderParameters } from './fields.ts'
import { type Guide, renderGuideLinks } from './guides.ts'
import {
  type Content,
  type Html,
  highlight,
  html,
  renderCode,
  renderHead,
  renderInline,
  renderMarkdown,
  type Section,
  slugOf,
  splitSections,
} from './html.ts'
import { LANGUAGES, ORIGIN, sampleRequest } from './samples.ts'

/** Renders a reference as complete HTML, to which `page.js` adds search, tabs and requests, with links to the guides. */
export function renderPage(reference: Reference, guides: readonly Guide[] = []): string {
  const { api, introduction, tags, operations } = reference
  const { title } = api
  const [summary, ...sections] = splitSections(introduction)
  // This section comes before the operations, the others follow as conventions.
  const first = sections.filter(({ title }) => title === 'Authentication')
  const conventions = sections.filter((section) => !first.includes(section))
  const objects = listObjects(reference)
  // New users make this request first.
  const start = operations.find(({ path }) => path === '/me')
  const page = html`<!doctype html>
<html lang="en" data-language="${LANGUAGES[0]?.id}">
<head>
${renderHead(`${title}: reference`, `Reference of the ${title}, with examples in ${LANGUAGES.map(({ label }) => label).join(', ')}.`, '')}
<script src="page.js" defer></script>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
<nav aria-label="Reference">
<p class="brand"><a href="#overview">${title}</a> <span class="version">${VERSION}</span></p>
<form id="authorize" autocomplete="off">
<label for="token">API token</label>
<div class="row"><input id="token" type="password" placeholder="Paste a token" spellcheck="false"><button>Authorize</button></div>
<p role="status">Kept for this tab only.</p>
</form>
<div class="row"><input id="search" type="search" placeholder="Search ( / )" aria-label="Search the reference" aria-controls="links"><button id="menu" type="button" aria-expanded="false" aria-controls="links">Menu</button></div>
<p id="found" role="status"></p>
<div id="links">
${renderLinks('Getting started', [{ id: 'overview', title: 'Overview' }, ...first])}
${tags.map(({ name, operations }) =>
  renderLinks(
    name,
    operations.map(({ id, summary, method }) => ({ id, title: summary, method })),
  ),
)}
${renderLinks('Conventions', conventions)}
${renderLinks(
  'Objects',
  objects.map(({ name }) => ({ id: `object-${name}`, title: name })),
)}
${renderGuideLinks(guides)}</div>
</nav>
<main id="content">
<section id="overview"><div class="text"><h1>${title}</h1>${renderMarkdown(summary?.text ?? '')}
<p>Also as <a href="api/v1/openapi.json">OpenAPI 3.1</a>, <a href="postman_collection.json" download>Postman collection</a> and <a href="llms.txt">llms.txt</a>.</p>
</div><div class="code"><div class="panel"><h2>Base URL</h2>${renderCode(`${ORIGIN}/api/v1`, 'Base URL')}</div></div></section>
${first.map((section) => renderConvention(section, start && renderSamples(start)))}
${tags.map((tag) => renderTag(tag, reference))}
<h2 class="part" id="guides">Conventions</h2>
${conventions.map((section) => renderConvention(section))}
<h2 class="part" id="objects">Objects</h2>
${objects.map(({ name, schema }) => renderObject(name, schema))}
</main>
</body>
</html>
`
  return String(page).replaceAll(ORIGIN, `<span data-origin>${ORIGIN}</span>`)
}

/** Lists the named schemas, except those that are only the body of an operation. */
function listObjects({ schemas, operations }: Reference) {
  const bodies = operations.map(({ body }) => body && componentOf(body.schema))
  const text = JSON.stringify(schemas)
  return Object.entries(schemas)
    .filter(([name]) => !bodies.includes(name) || text.includes(`"#/components/schemas/${name}"`))
    .map(([name, schema]) => ({ name, schema }))
}

function resolve({ schemas }: Reference, schema: JsonObject): JsonObject {
  const name = componentOf(schema)
  return name === null ? schema : asObject(schemas[name])
}

function renderLinks(title: string, links: { id: string; title: string; method?: string }[]): Html {
  return html`<div class="group"><h2>${title}</h2><ul>${links.map(
    ({ id, title, method }) =>
      html`<li><a href="#${id}"><span>${title}</span>${method !== undefined && renderMethod(method)}</a></li>`,
  )}</ul></div>\n`
}

function renderMethod(method: string): Html {
  return html` <span class="method ${method.toLowerCase()}">${method}</span>`
}

function renderConvention({ id, title, text }: Section, code?: Content): Html {
  return html`<section id="${id}"><div class="text"><h2>${title}</h2>${renderMarkdown(text)}</div>${
    code && html`<div class="code">${code}</div>`
  }</section>\n`
}

function renderTag({ name, description, operations }: Reference['tags'][number], reference: Reference): Html {
  const endpoints = operations.map(
    ({ id, method, path }) => html`<li><a href="#${id}">${renderMethod(method)} <code>${path}</code></a></li>`,
  )
  return html`<section id="tag-${slugOf(name)}" class="tag"><div class="text"><h2>${name}</h2>${renderMarkdown(description)}</div>
<div class="code"><div class="panel"><h3>Endpoints</h3><ul class="endpoints">${endpoints}</ul></div></div></section>
${operations.map((operation) => renderOperation(reference, operation))}`
}

function renderOperation(reference: Reference, operation: Operation): Html {
  const { id, method, path, summary, description, parameters, body, responses } = operation
  const success = responses.filter(({ status }) => status < 400)
  const errors = responses.filter(({ status }) => status >= 400)
  const inputs = parameters.map(({ name, in: place, required = false, example }) => ({
    name,
    place,
    required,
    example,
  }))
  const sections = { path: 'Path', query: 'Query', header: 'Request headers' }
  return html`<section id="${id}" class="operation" data-method="${method}" data-path="${path}" data-inputs="${JSON.stringify(inputs)}"${
    body && html` data-body="${JSON.stringify(body.example, null, 2)}"`
  }>
<div class="text"><h3>${summary}</h3>
<p class="address">${renderMethod(method)} <code>${path}</code></p>
${renderMarkdown(description)}
${Object.entries(sections).map(([place, title]) => {
  const shown = parameters.filter((parameter) => parameter.in === place)
  return shown.length > 0 && html`<h4>${title}</h4>${renderParameters(shown)}`
})}
${body && html`<h4>Body</h4>${renderMarkdown(body.description)}${renderFields(resolve(reference, body.schema))}`}
${success.map((response) => renderResponse(reference, response))}
<details><summary>Errors <span class="codes">${errors.map(({ status }) => status).join(' ')}</span></summary>
<dl class="fields">${errors.map((error) => html`<div><dt><code>${error.status}</code></dt><dd>${renderMarkdown(error.description)}</dd></div>`)}</dl></details>
${renderHeaders(reference, operation)}
</div>
<div class="code">${renderSamples(operation)}<div class="try"><button type="button">Try it</button></div>${success.map(
    ({ status, example }) =>
      example !== undefined &&
      html`<div class="panel response"><h4>Response <span class="status">${status}</span></h4>${renderCode(JSON.stringify(example, null, 2), 'Response example')}</div>`,
  )}</div></section>
`
}

function renderResponse(reference: Reference, { status, description, schema }: Response): Content {
  if (!schema) return html`<p><code>${status}</code> ${renderInline(description)}</p>`
  const name = componentOf(schema)
  const fields = renderFields(resolve(reference, schema))
  return html`<details><summary>Response <span class="codes">${status}${name && ` ${name}`}</span></summary>${renderMarkdown(description)}${fields}</details>`
}

function renderHeaders({ api }: Reference, { responses }: Operation): Html {
  return html`<details><summary>Headers</summary>
<h4>Of any request</h4>${renderParameters(Object.values(api.headers))}
<h4>Of the response</h4><dl class="fields">${responses[0]?.headers.map(
    (name) =>
      html`<div><dt><code>${headerNameOf(name)}</code></dt><dd>${renderMarkdown(responseHeaders[name].description)}</dd></div>`,
  )}</dl></details>`
}

function renderObject(name: string, schema: JsonObject): Html {
  const { description } = schema
  return html`<section id="object-${name}"><div class="text"><h3>${name}</h3>${
    typeof description === 'string' && renderMarkdown(description)
  }${renderFields(schema)}</div></section>
`
}

/** Renders the request in each language; the style shows the chosen one. */
function renderSamples(operation: Operation): Html {
  const request = sampleRequest(operation)
  const tabs = LANGUAGES.map(
    ({ id, label }, index) =>
      html`<button type="button" role="tab" data-language="${id}" aria-selected="${index === 0 ? 'true' : 'false'}" tabindex="${index === 0 ? 0 : -1}">${label}</button>`,
  )
  const panels = LANGUAGES.map(
    ({ id, label, write }) =>
      html`<pre role="tabpanel" tabindex="0" aria-label="Request in ${label}" data-language="${id}"><code>${highlight(write(request))}</code></pre>`,
  )
  return html`<div class="panel request"><div class="bar"><div role="tablist" aria-label="Language">${tabs}</div><button type="button" class="copy" aria-label="Copy the request">Copy</button></div>
${panels}</div>`
}
