/* global SwaggerUIBundle */

// The viewer has a dark theme behind a class; the reader's system decides.
const dark = window.matchMedia('(prefers-color-scheme: dark)')
const applyTheme = () => document.documentElement.classList.toggle('dark-mode', dark.matches)
applyTheme()
dark.addEventListener('change', applyTheme)

// A link to a group of operations, such as #operations-tag-Orders, is followed once the group is there.
const linked = window.location.hash.replace(/^#\/?/, '')
const followLink = () => document.getElementById(linked)?.scrollIntoView()

SwaggerUIBundle({
  url: '/api/v1/openapi.json',
  dom_id: '#reference',
  deepLinking: true,
  displayRequestDuration: true,
  docExpansion: 'list',
  defaultModelsExpandDepth: 0,
  defaultModelExpandDepth: 2,
  // Nothing leaves this origin, and the token that a reader enters is forgotten with the page.
  validatorUrl: null,
  persistAuthorization: false,
  onComplete: () => setTimeout(followLink),
})
