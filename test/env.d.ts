declare namespace Cloudflare {
  interface Env {
    DB_TWO: D1Database
    TEST_MIGRATIONS: import('cloudflare:test').D1Migration[]
  }
  interface GlobalProps {
    mainModule: typeof import('../src/index.ts')
  }
}

declare module '*.json?raw' {
  const text: string
  export default text
}

declare module '*.toml?raw' {
  const text: string
  export default text
}

declare module '*.md?raw' {
  const text: string
  export default text
}
