import { defineConfig } from 'vitest/config'

/** Tests of what runs in Node: the commands, as a user starts them. */
export default defineConfig({
  root: new URL('../..', import.meta.url).pathname,
  test: {
    include: ['test/node/**/*.test.ts'],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    globalSetup: ['./test/node/cli-setup.ts'],
  },
})
