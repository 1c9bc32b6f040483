import type { Contract } from '../../kernel/api/contract.ts'
import { endpoints as accounting } from './accounting/contract.ts'
import { endpoints as audit } from './audit/contract.ts'
import { endpoints as companies } from './companies/contract.ts'
import { endpoints as databases } from './databases/contract.ts'
import { endpoints as exports } from './exports/contract.ts'
import { endpoints as imports } from './imports/contract.ts'
import { endpoints as integrations } from './integrations/contract.ts'
import { endpoints as keys } from './keys/contract.ts'
import { endpoints as members } from './members/contract.ts'
import { endpoints as recovery } from './recovery/contract.ts'
import { endpoints as session } from './session/contract.ts'
import { endpoints as tokens } from './tokens/contract.ts'
import { endpoints as webhooks } from './webhooks/contract.ts'

export const adminContracts: readonly Contract[] = [
  ...session,
  ...companies,
  ...databases,
  ...tokens,
  ...members,
  ...integrations,
  ...accounting,
  ...webhooks,
  ...audit,
  ...keys,
  ...imports,
  ...exports,
  ...recovery,
]
