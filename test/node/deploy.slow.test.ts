import { spawnSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'

describe('wrangler deploy --dry-run', () => {
  it.each(['staging', 'production'])('accepts the configuration and the bundle of %s', (env) => {
    const args = ['node_modules/wrangler/bin/wrangler.js', 'deploy', '--dry-run', '--env', env]
    const { status, stdout } = spawnSync(process.execPath, args, { encoding: 'utf8' })
    expect(status).toBe(0)
    expect(stdout).toContain(`env.DB (crm-integration-api-${env})`)
    expect(stdout).toContain(`env.FILES (crm-integration-api-${env}-files)`)
    expect(stdout).toContain('--dry-run: exiting now.')
  })

  it.each([['deploy'], ['versions', 'upload']])(
    'of the top level, with its placeholder ids, is refused: %s',
    (...command) => {
      const args = ['node_modules/wrangler/bin/wrangler.js', ...command, '--dry-run']
      const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' })
      expect(status).not.toBe(0)
      expect(stdout + stderr).toContain('deploy with --env staging or --env production.')
    },
  )
})
