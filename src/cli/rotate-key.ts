import { rotateKey } from '../operation/admin/keys/contract.ts'
import { CommandError, print, readCommandLine, runCommand } from './command.ts'
import { connect, PLACE, readPlace } from './place.ts'

const USAGE = `npm run rotate-key -- ${PLACE.usage}`
const HELP = `${USAGE}

Encrypts everything with the new key that is still encrypted with an old one. First set CREDENTIALS_KEY of the service
to 'NEW,OLD'; remove OLD after this command has ended without an error. One that was interrupted is run again.

${PLACE.help}`

await runCommand(HELP, async (args) => {
  const { values } = readCommandLine(args, USAGE, PLACE.options)
  await using service = await connect(readPlace(values))
  let done = 0
  for (;;) {
    const { reencrypted, unreadable, remaining } = await service.call(rotateKey, { isRepeatable: true })
    done += reencrypted
    if (remaining === 0) break
    if (reencrypted === 0) {
      if (remaining > unreadable) {
        throw new CommandError('A company is being moved: repeat this when its move is finished. Keep the old key.')
      }
      const rest = remaining === 1 ? '1 value' : `${remaining} values`
      throw new CommandError(`${rest} can be read with no key: save those credentials again. Keep the old key.`)
    }
  }
  print(`Encrypted ${done} ${done === 1 ? 'value' : 'values'} with the new key. Nothing uses another one: remove it.`)
})
