/** Where a database, its replicas and objects can be: the regions of D1. Objects are in the same ones here. */
export const LOCATIONS = ['enam', 'wnam', 'weur', 'eeur', 'apac', 'oc'] as const
export type Location = (typeof LOCATIONS)[number]

/**
 * Round trips in milliseconds from a site to each of {@link LOCATIONS}, as CloudPing measures them between regions of
 * AWS: https://www.cloudping.co ("AWS Region Latency Matrix", 50th percentile), as stored in `p50.json` of
 * github.com/commonwarexyz/monorepo (examples/estimator, commit 4622dfb1), rounded. Cloudflare publishes none.
 */
const ROUND_TRIPS_MS = {
  Virginia: [6, 64, 84, 93, 220, 200], // us-east-1, stands for enam
  Oregon: [64, 3, 135, 143, 160, 141], // us-west-2, wnam
  Paris: [84, 136, 3, 13, 167, 280], // eu-west-3, weur
  Frankfurt: [93, 142, 12, 4, 160, 251], // eu-central-1, eeur
  Singapore: [219, 161, 167, 161, 4, 95], // ap-southeast-1, apac
  Sydney: [200, 141, 280, 252, 95, 4], // ap-southeast-2, oc
  'São Paulo': [115, 175, 196, 205, 328, 312], // sa-east-1
  'Cape Town': [226, 273, 145, 155, 314, 409], // af-south-1
  Mumbai: [190, 222, 109, 129, 64, 155], // ap-south-1
} as const satisfies Record<string, readonly number[]>

export type Site = keyof typeof ROUND_TRIPS_MS

const SITES: Record<Location, Site> = {
  enam: 'Virginia',
  wnam: 'Oregon',
  weur: 'Paris',
  eeur: 'Frankfurt',
  apac: 'Singapore',
  oc: 'Sydney',
}

/** What Cloudflare tells a Worker of a caller, as `request.cf`. */
export interface Caller {
  continent: string
  country: string
  colo: string
  longitude: string
}

/** The regions that callers are in. D1 has no replica in South America and Africa. */
export const CALLERS: Partial<Record<Site, Caller>> = {
  Virginia: { continent: 'NA', country: 'US', colo: 'IAD', longitude: '-77.5' },
  Oregon: { continent: 'NA', country: 'US', colo: 'PDX', longitude: '-122.7' },
  'São Paulo': { continent: 'SA', country: 'BR', colo: 'GRU', longitude: '-46.6' },
  Paris: { continent: 'EU', country: 'FR', colo: 'CDG', longitude: '2.4' },
  'Cape Town': { continent: 'AF', country: 'ZA', colo: 'CPT', longitude: '18.4' },
  Mumbai: { continent: 'AS', country: 'IN', colo: 'BOM', longitude: '72.9' },
  Singapore: { continent: 'AS', country: 'SG', colo: 'SIN', longitude: '103.8' },
  Sydney: { continent: 'OC', country: 'AU', colo: 'SYD', longitude: '151.2' },
}

export const CALLER_SITES = Object.keys(CALLERS) as Site[]

/** Where the primaries are; each is the nearest location of one of the callers. */
export const PRIMARIES = ['enam', 'weur', 'apac'] as const satisfies readonly Location[]

export const roundTripMs = (from: Site, to: Location) => ROUND_TRIPS_MS[from][LOCATIONS.indexOf(to)] ?? 0

export const siteOf = (location: Location) => SITES[location]

export function nearestLocation(site: Site): Location {
  return LOCATIONS.reduce((best, each) => (roundTripMs(site, each) < roundTripMs(site, best) ? each : best))
}

/** The round trip to what is nearest to a site: a near hop. */
export const nearHopMs = (site: Site) => roundTripMs(site, nearestLocation(site))

export const hasReplicaOnContinent = (site: Site) => !['SA', 'AF'].includes(CALLERS[site]?.continent ?? '')

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
export const copiesOf = (database: string): [primary: string, replica: string] => [
  `PRIMARY_${database}`,
  `REPLICA_${database}`,
]
