import { readFileSync } from 'node:fs'
import { parseEnv } from 'node:util'
import type { Place } from './database.ts'
import { PROJECT_ROOT } from './wrangler.ts'

/**
 * The key that the Worker of this place decrypts with: locally what `wrangler dev` reads from `.dev.vars`, else the
 * environment; for the deployed one the environment alone, so that the public development key never gets there.
 */
export function readCredentialsKey(place: Place): string | null {
  const given = process.env.CREDENTIALS_KEY || null
  return place === 'remote' ? given : (readDevelopmentKey() ?? given)
}

function readDevelopmentKey(): string | null {
  try {
    return parseEnv(readFileSync(`${PROJECT_ROOT}/.dev.vars`, 'utf8')).CREDENTIALS_KEY || null
  } catch {
    return null
  }
}
