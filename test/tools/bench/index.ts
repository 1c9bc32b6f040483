export {}

/**
 * `npm run bench [-- NAME …]`: each benchmark prints its figures beside a floor measured in the same run. The names
 * after `profile` are those of its routes.
 */
const BENCHMARKS: Record<string, () => Promise<{ run: (routes: string[]) => Promise<void> }>> = {
  core: () => import('./core.ts'),
  mail: () => import('./mail.ts'),
  'mail-memory': () => import('./mail-memory.ts'),
  neighbour: () => import('./neighbour.ts'),
  profile: () => import('./profile.ts'),
  products: () => import('./products.ts'),
  shapes: () => import('./shapes.ts'),
  start: () => import('./start.ts'),
  writes: () => import('./writes.ts'),
}

/** Runs by name only: it has a part of another's works. */
const QUICK = 'quick'

const given = process.argv.slice(2)
const [names, routes] = given[0] === 'profile' ? [['profile'], given.slice(1)] : [given, []]
for (const name of names.length > 0 ? names : Object.keys(BENCHMARKS)) {
  const benchmark = name === QUICK ? async () => ({ run: (await import('./core.ts')).runQuick }) : BENCHMARKS[name]
  if (!benchmark) {
    console.error(`There is no benchmark ${name}; there are: ${[QUICK, ...Object.keys(BENCHMARKS)].join(', ')}.`)
    process.exit(1)
  }
  await (await benchmark()).run(routes)
}
