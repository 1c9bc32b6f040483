import * as clients from './clients/contract.ts'
import type { Contract } from './http/contract.ts'

/** Every endpoint of the API. */
export const contracts: readonly Contract[] = [
  clients.listClients,
  clients.createClient,
  clients.readClient,
  clients.updateClient,
]
