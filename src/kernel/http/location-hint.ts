/** Regions for Durable Objects by continent. In North America, Europe and Asia a meridian separates two. */
const HINTS: Partial<
  Record<string, [east: DurableObjectLocationHint, meridian?: number, west?: DurableObjectLocationHint]>
> = {
  AF: ['afr'],
  AS: ['apac', 60, 'me'],
  EU: ['eeur', 16, 'weur'],
  NA: ['enam', -100, 'wnam'],
  OC: ['oc'],
  SA: ['sam'],
}

/** The region for an object near the caller; undefined if unknown, which places it near the Worker. */
export function locationHint(cf: object | undefined): DurableObjectLocationHint | undefined {
  const { continent, longitude }: Partial<IncomingRequestCfPropertiesGeographicInformation> = cf ?? {}
  const [east, meridian, west] = HINTS[continent ?? ''] ?? []
  if (meridian === undefined) return east
  const degrees = Number.parseFloat(longitude ?? '')
  if (Number.isNaN(degrees)) return undefined
  return degrees < meridian ? west : east
}
