import { defineConfig } from 'vitest/config'

/** Tests against other people's software, which each of them installs at its first run (`npm run test:slow`). */
export default defineConfig({
  root: new URL('../..', import.meta.url).pathname,
  test: {
    include: ['test/slow/**/*.test.ts'],
    testTimeout: 120_000,
    hookTimeout: 300_000,
  },
})
