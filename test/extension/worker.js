/* The extension's background worker. The test calls what stands on `globalThis`. */
import * as flow from './flow.js'

Object.assign(globalThis, flow)
