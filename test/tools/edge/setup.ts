import type { Location } from './places.ts'

/** How the bindings of one Worker are simulated. */
export interface Setup {
  /** Where the primaries of its databases and its buckets are. */
  primary: Location
  databases: string[]
  /** The class of each binding of objects. */
  objects: Record<string, string>
  caches: string[]
  buckets: string[]
  /** Whether every read goes to the nearest replica, however old: shows that the simulation finds stale reads. */
  ignoresBookmarks: boolean
}

/** The two databases that stand for one, and their bindings: its primary and its replicas. */
export function copiesOf(database: string): [primary: string, replica: string] {
  return [`PRIMARY_${database}`, `REPLICA_${database}`]
}
