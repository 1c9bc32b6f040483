import { asObject, isObject, type Json, type JsonObject } from '../json.ts'
import type { Parameter } from '../reference.ts'
import { type Content, type Html, html, renderMarkdown } from './html.ts'

/** Pairs of a lower and an upper bound, with the singular and plural of their unit. */
const RANGES: [low: string, high: string, unit: string, units: string][] = [
  ['minLength', 'maxLength', ' character', ' characters'],
  ['minimum', 'maximum', '', ''],
  ['exclusiveMinimum', 'exclusiveMaximum', ' (exclusive)', ' (exclusive)'],
  ['minItems', 'maxItems', ' element', ' elements'],
]

export function renderParameters(parameters: readonly Parameter[]): Html {
  return html`<dl class="fields">${parameters.map(({ name, schema, description, required = false }) =>
    renderField(name, { description, ...schema }, required),
  )}</dl>`
}

export function renderFields(schema: JsonObject): Html {
  const { properties, required, items } = schema
  const name = componentOf(schema)
  if (name) return html`<p>${link(name)}</p>`
  const alternatives = alternativesOf(schema)
  if (alternatives.length > 0) {
    return html`<ul class="alternatives">${alternatives.map((each) => html`<li>${renderFields(each)}</li>`)}</ul>`
  }
  if (isObject(properties)) {
    const needed: Json[] = Array.isArray(required) ? required : []
    return html`<dl class="fields">${Object.entries(properties).map(([key, property]) =>
      renderField(key, asObject(property), needed.includes(key)),
    )}</dl>`
  }
  if (isObject(items)) return html`<p>${describeType(schema)}</p>${nested(items)}`
  return html`<p>${describeType(schema)} ${describeRules(schema)}</p>`
}

function renderField(name: string, schema: JsonObject, isRequired: boolean): Html {
  const { description, items } = schema
  const rules = describeRules(schema)
  return html`<div><dt><code>${name}</code> <span class="type">${describeType(schema)}</span>${
    isRequired && html` <span class="required">required</span>`
  }</dt><dd>${typeof description === 'string' && renderMarkdown(description)}${
    rules && html`<p class="rules">${rules}</p>`
  }${nested(isObject(items) ? items : schema)}</dd></div>`
}

/** Renders the fields of an object within a field, folded. */
function nested(schema: JsonObject): Content {
  const { properties } = schema
  const hasFields = [schema, ...alternativesOf(schema)].some((each) => isObject(each.properties))
  if (!hasFields) return null
  const count = isObject(properties) ? Object.keys(properties).length : 0
  return html`<details><summary>${count > 0 ? `${count} field${count === 1 ? '' : 's'}` : 'Fields'}</summary>${renderFields(schema)}</details>`
}

function alternativesOf({ anyOf, oneOf }: JsonObject): JsonObject[] {
  const found = anyOf ?? oneOf
  return Array.isArray(found) ? found.map(asObject) : []
}

/** Describes a type, such as "string or null", "array of Client", "integer". */
function describeType(schema: JsonObject): Content {
  const name = componentOf(schema)
  if (name) return link(name)
  const { type, format, items } = schema
  const alternatives = alternativesOf(schema)
  if (alternatives.length > 0) return join(' or ', alternatives.map(describeType))
  const names = (Array.isArray(type) ? type : [type ?? 'any']).map((each) => {
    if (each === 'array' && isObject(items)) return html`array of ${describeType(items)}`
    return each === 'string' && typeof format === 'string' ? format : String(each)
  })
  return join(' or ', names)
}

function join(separator: string, parts: readonly Content[]): Content {
  return parts.map((part, index) => [index > 0 && separator, part])
}

/** Describes rules, such as "one of `a`, `b`; default a" or "1 to 100, default 25"; null without any. */
function describeRules(schema: JsonObject): Html | null {
  const rules = [
    ...(schema.const === undefined ? [] : [`always ${writeValue(schema.const)}`]),
    ...RANGES.flatMap(([low, high, unit, units]) => describeRange(schema[low], schema[high], unit, units)),
    ...(schema.default === undefined ? [] : [`default ${writeValue(schema.default)}`]),
  ]
  const values = Array.isArray(schema.enum) ? schema.enum.filter((value) => value !== null) : []
  if (rules.length === 0 && values.length === 0) return null
  const listed = values.map((value) => html`<code>${String(value)}</code>`)
  return html`${values.length > 0 && ['one of ', join(', ', listed), rules.length > 0 && '; ']}${rules.join(', ')}`
}

function describeRange(low: Json | undefined, high: Json | undefined, unit: string, units: string): string[] {
  const isLow = typeof low === 'number' && low > -Number.MAX_SAFE_INTEGER
  // Bounds of every safe integer say nothing, so they are omitted.
  const isHigh = typeof high === 'number' && high < Number.MAX_SAFE_INTEGER
  if (isLow && isHigh) return [low === high ? `exactly ${low}${low === 1 ? unit : units}` : `${low} to ${high}${units}`]
  if (isLow) return [`at least ${low}${low === 1 ? unit : units}`]
  return isHigh ? [`at most ${high}${high === 1 ? unit : units}`] : []
}

function writeValue(value: Json): string {
  return typeof value === 'string' && value !== '' ? value : JSON.stringify(value)
}

function link(name: string): Html {
  return html`<a href="#object-${name}">${name}</a>`
}

/** The component that a schema refers to, such as `Client`, or null. */
export function componentOf({ $ref }: JsonObject): string | null {
  return typeof $ref === 'string' ? ($ref.split('/').at(-1) ?? null) : null
}
