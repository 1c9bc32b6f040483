import { cloudflareTest, readD1Migrations } from '@cloudflare/vitest-pool-workers'
import { defineConfig } from 'vitest/config'

export default defineConfig({
  root: new URL('..', import.meta.url).pathname,
  plugins: [
    cloudflareTest(async () => ({
      wrangler: { configPath: './wrangler.toml' },
      miniflare: { bindings: { TEST_MIGRATIONS: await readD1Migrations('./drizzle') } },
    })),
  ],
  test: {
    // A worker for each core, where Vitest would leave one free: halves the time on two.
    maxWorkers: '100%',
    include: ['test/**/*.test.ts'],
    exclude: ['test/node/**', 'test/slow/**', '**/node_modules/**'],
    globalSetup: ['./test/global-setup.ts'],
  },
})
