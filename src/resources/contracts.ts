import type { Contract } from '../kernel/api/contract.ts'
import { endpoints as account } from './account/contract.ts'
import { endpoints as batch } from './batch/contract.ts'
import { endpoints as changes } from './changes/contract.ts'
import { endpoints as clients } from './clients/contract.ts'
import { endpoints as files } from './files/contract.ts'
import { endpoints as mail } from './mail/contract.ts'
import { endpoints as orders } from './orders/contract.ts'
import { endpoints as invoices } from './orders/invoice-contract.ts'
import { endpoints as products } from './products/contract.ts'

/** Every endpoint of the API. */
export const contracts: readonly Contract[] = [
  ...account,
  ...clients,
  ...orders,
  ...invoices,
  ...changes,
  ...products,
  ...mail,
  ...files,
  ...batch,
]
