/* The extension's background worker. The test calls the functions on `globalThis`. */
import * as flow from './flow.js'

Object.assign(globalThis, flow)
