/** Loaded into a child process: ends it when the process that started it is gone, however that came to be. */
const CHECK_MS = 500
const parent = process.ppid

setInterval(() => {
  if (process.ppid !== parent) process.kill(process.pid, 'SIGTERM')
}, CHECK_MS).unref()
