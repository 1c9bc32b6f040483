import { credentialsKind } from '../../../delivery/webhooks/message.ts'
import { openEach } from '../../../kernel/db/placement.ts'
import {
  CredentialsError,
  decryptCredentials,
  encryptCredentials,
  firstKeyPrefix,
} from '../../../kernel/gate/credentials.ts'
import { adminRoute, conflict } from '../endpoint.ts'
import * as contract from './contract.ts'
import { type EncryptedValue, findMoving, listOldValues, saveValues } from './queries.ts'

/** Limits the values that one request encrypts again: D1 allows 1,000 statements, and each costs 1 ms of CPU. */
const VALUES_MAX = 100
/** Limits the pages read past values that cannot be decrypted, to reach those after them. */
const PAGES_MAX = 20

export const routes = [
  adminRoute(contract.rotateKey, async (_input, context) => {
    const keys = context.env.CREDENTIALS_KEY
    const prefix = await firstKeyPrefix(keys).catch((error: unknown) => {
      throw error instanceof CredentialsError ? conflict(error.message) : error
    })
    const moving = await findMoving(context)
    if (moving !== null) {
      const remedy = 'finish it or take it back, and repeat this. Keep the old key'
      throw conflict(`The move of company ${moving} is not finished: ${remedy}`)
    }
    const encrypt = async (value: EncryptedValue) => {
      const kind = value.table === 'webhook_endpoints' ? credentialsKind(value.id) : value.id
      const credentials = await decryptCredentials(keys, value.companyId, kind, value.stored).catch(() => null)
      if (credentials === null || typeof credentials !== 'object') return []
      return [{ ...value, encrypted: await encryptCredentials(keys, value.companyId, kind, credentials) }]
    }
    const contexts = openEach(context.env).map(({ name, db }) => ({ ...context, db, database: name }))
    let [reencrypted, unreadable] = [0, 0]
    for (const each of contexts) {
      let after = ''
      for (let page = 0; page < PAGES_MAX && reencrypted === 0; page++) {
        const { rows } = await listOldValues(each, prefix, after, VALUES_MAX)
        const encrypted = (await Promise.all(rows.map(encrypt))).flat()
        if (encrypted.length > 0) await saveValues(each, encrypted)
        reencrypted = encrypted.length
        unreadable += rows.length - reencrypted
        after = rows.at(-1)?.place ?? after
        if (rows.length < VALUES_MAX) break
      }
    }
    const counts = await Promise.all(contexts.map((each) => listOldValues(each, prefix, '', 1)))
    return { reencrypted, unreadable, remaining: counts.reduce((sum, { total }) => sum + total, 0) }
  }),
]
