import * as clients from './clients/contract.ts'
import * as files from './files/contract.ts'
import type { Contract } from './http/contract.ts'
import * as threadContext from './mail/context/contract.ts'
import * as emailThreads from './mail/threads/contract.ts'
import * as orders from './orders/contract.ts'
import * as products from './products/contract.ts'

/** Every endpoint of the API. */
export const contracts: readonly Contract[] = [
  clients.listClients,
  clients.createClient,
  clients.readClient,
  clients.updateClient,
  orders.listOrders,
  orders.createOrder,
  orders.readOrder,
  orders.updateOrder,
  orders.deleteOrder,
  products.searchProducts,
  products.readProduct,
  threadContext.readThreadContext,
  emailThreads.putEmailThread,
  emailThreads.readEmailThread,
  files.presignUpload,
  files.listFiles,
]
