import { rotateKey } from '../operation/admin/databases/contract.ts'
import { CommandError, runCommand } from './command.ts'
import { operation, plural } from './operator.ts'

const HELP = `Encrypts everything with the new key that is still encrypted with an old one. First set CREDENTIALS_KEY of the service
to 'NEW,OLD'. 31 days after this command has ended without an error no cursor needs OLD: run it again, then remove OLD.
Store OLD as long as 'npm run companies -- backups ID' lists one from before. Run an interrupted command again.`

const rotation = operation({}, async (service) => {
  let done = 0
  for (;;) {
    const { reencrypted, unreadable, remaining } = await service.call(rotateKey, { isRepeatable: true })
    done += reencrypted
    if (remaining === 0) break
    if (reencrypted > 0) continue
    const moving = 'A company is being moved: repeat this when its move is finished. Keep the old key.'
    const remedy = 'add the old key again, or save those credentials again. Until then keep all keys.'
    const lost = `${plural(unreadable, 'value', 'values')} cannot be read with any key: ${remedy}`
    throw new CommandError(unreadable === 0 ? moving : lost)
  }
  if (done === 0) {
    const wrong = 'If the new one is not first yet, put it first, deploy it, and repeat this.'
    return console.log(`Nothing was encrypted: every stored value uses the first key of CREDENTIALS_KEY. ${wrong}`)
  }
  console.log(
    `Encrypted ${plural(done, 'value', 'values')} with the new key. Cursors use an older one: run this again in 31 days, before you remove that from CREDENTIALS_KEY. Store it as long as 'npm run companies -- backups ID' lists one from before now.`,
  )
})

await runCommand('rotate-key', HELP, { '': rotation })
