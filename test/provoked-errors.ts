/**
 * What workerd reports, with a stack, of failures that tests provoke and the code handles: a 500, a supplier or caller
 * that breaks the connection or has no address, an object that is aborted.
 */
const PROVOKED = [
  'InternalError: of request',
  'Network connection lost',
  'disconnected: client error',
  'error reading a body from connection',
  'Connection refused',
  'failed to lookup address information',
  'internal error; reference =',
  'Error: down',
  'The sender is gone',
  'The thread was replaced while it was sent',
  'pump canceled',
  'reader canceled',
  'read end of pipe was aborted',
  'abortAllDurableObjects',
]

/** Leaves these reports out of the output of a run; any other one is printed. */
export function leaveOutProvoked(): void {
  const isProvoked = (text: unknown) =>
    typeof text === 'string' &&
    /^(uncaught exception;|e(xception)? =)/.test(text) &&
    PROVOKED.some((each) => text.includes(each))
  for (const stream of [process.stdout, process.stderr]) {
    stream.write = new Proxy(stream.write, {
      apply: (write, self, input) => isProvoked(input[0]) || Reflect.apply(write, self, input),
    })
  }
}
