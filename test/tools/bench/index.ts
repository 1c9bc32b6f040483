export {}

/**
 * `npm run bench [-- NAME …]`: each benchmark prints its figures beside a floor measured in the same run. The names
 * after `profile` are those of its routes.
 */
const BENCHMARKS: Record<string, () => Promise<(routes: string[]) => Promise<void>>> = {
  core: async () => (await import('./core.ts')).run,
  mail: async () => (await import('./mail.ts')).run,
  'mail-memory': async () => (await import('./mail.ts')).runMemory,
  neighbour: async () => (await import('./neighbour.ts')).run,
  profile: async () => (await import('./profile.ts')).run,
  products: async () => (await import('./products.ts')).run,
  shapes: async () => (await import('./shapes.ts')).run,
  start: async () => (await import('./start.ts')).run,
  writes: async () => (await import('./writes.ts')).run,
  quick: async () => (await import('./core.ts')).runQuick,
}

const given = process.argv.slice(2)
const [names, routes] = given[0] === 'profile' ? [['profile'], given.slice(1)] : [given, []]
// The quick one has a part of another's works: it runs by name only.
for (const name of names.length > 0 ? names : Object.keys(BENCHMARKS).filter((each) => each !== 'quick')) {
  const load = BENCHMARKS[name]
  if (!load) {
    console.error(`There is no benchmark ${name}; there are: ${Object.keys(BENCHMARKS).join(', ')}.`)
    process.exit(1)
  }
  await (await load())(routes)
}
