const WORD_CHARACTER = /[\w.~+/=%-]/
/** No word for people: a token that was given before, say, or a secret in base64. */
const LONG_WORD = /[\w.~+/=%-]{24,}/g
const REDACTED = '[secret]'

/**
 * Cuts a text from outside to `maxLength` characters and redacts the secrets in it, known ones and whatever looks like
 * one. A secret that the cut would halve is left out whole. Reads no more of the text than it needs.
 */
export function redactSecrets(text: string, secrets: readonly string[], maxLength: number): string {
  // The longest first, so that a secret which holds another one is replaced whole.
  const forms = secrets.flatMap(listForms).sort((a, b) => b.length - a.length)
  const window = text.slice(0, maxLength + (forms[0]?.length ?? 1))
  const cut = window.slice(0, findCut(window, forms, Math.min(maxLength, window.length)))
  const known = forms.reduce((rest, form) => rest.replaceAll(form, REDACTED), cut)
  return known.replaceAll(LONG_WORD, (word) => (/\d/.test(word) ? REDACTED : word))
}

/** As it is, and as it stands in an address and in a form. */
function listForms(secret: string): string[] {
  if (secret === '') return []
  const text = secret.toWellFormed()
  const inForm = new URLSearchParams([['', text]]).toString().slice(1)
  return [...new Set([secret, encodeURIComponent(text), inForm])]
}

/** The last place at or before `end` that is in no secret and, unless the text ends there, in no word. */
function findCut(window: string, forms: readonly string[], end: number): number {
  let cut = end
  for (let before = -1; before !== cut; ) {
    before = cut
    for (const form of forms) {
      const at = cut === 0 ? -1 : window.lastIndexOf(form, cut - 1)
      if (at >= 0 && at + form.length > cut) cut = at
    }
    while (isInWord(window, cut)) cut -= 1
  }
  return cut
}

function isInWord(text: string, at: number): boolean {
  return at > 0 && at < text.length && WORD_CHARACTER.test(text[at - 1] ?? '') && WORD_CHARACTER.test(text[at] ?? '')
}
