import { vi } from 'vitest'
import { emptyStorage } from './reset.ts'

// Starting a worker takes longer than most files: each gets empty storage, and modules as if just loaded. Objects refuse
// requests once their module is another.
await emptyStorage()
vi.resetModules()
await import('./setup.ts')
