import { documentation as clients } from '../clients/documentation.ts'
import { documentation as files } from '../files/documentation.ts'
import type { Contract, Documentation } from '../http/contract.ts'
import { documentation as context } from '../mail/context/documentation.ts'
import { documentation as threads } from '../mail/threads/documentation.ts'
import { documentation as orders } from '../orders/documentation.ts'
import { documentation as products } from '../products/documentation.ts'

const documentation: Record<string, Documentation> = {
  ...clients,
  ...orders,
  ...products,
  ...context,
  ...threads,
  ...files,
}

/** @throws where nobody has described the endpoint */
export function documentationOf({ operationId }: Pick<Contract, 'operationId'>): Documentation {
  const found = documentation[operationId]
  if (!found) throw new Error(`${operationId} has no documentation.`)
  return found
}
