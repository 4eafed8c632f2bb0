// The four loops that the protocol's authors measure servers by, against two servers in turns: node loops.mjs NAME=URL=PID... Medians of
// ROUNDS (5) rounds, the first not counted, with the processor time of the server for each append, of /proc.
import { readFileSync } from "node:fs"
import { DurableStream } from "@durable-streams/client"

const rounds = Number(process.env.ROUNDS ?? 5)
const ticks = 100 // of a second, on Linux
const servers = process.argv.slice(2).map((arg) => {
  const [name, url, pid] = arg.split("=")
  return { name, url, pid, seen: new Map() }
})

const processor = ({ pid }) => {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").replace(/.*\) /s, "").split(" ")
  return (Number(fields[11]) + Number(fields[12])) / ticks
}

let made = 0
const create = ({ url }) =>
  DurableStream.create({ url: `${url}/v1/stream/loop-${process.pid}-${made++}`, contentType: "application/octet-stream" })

// appends sends so many appends of a size to one stream, so many side by side, and gives how many a second.
const appends = (count, size, abreast) => async (server) => {
  const stream = await create(server)
  const body = new Uint8Array(size).fill(42)
  const before = processor(server)
  const begin = performance.now()
  for (let sent = 0; sent < count; sent += abreast) {
    await Promise.all(Array.from({ length: Math.min(abreast, count - sent) }, () => stream.append(body)))
  }
  const seconds = (performance.now() - begin) / 1000
  const cpu = processor(server) - before
  const stored = await length(stream)
  if (stored !== count * size) throw new Error(`${server.name}: ${stored} bytes are stored of ${count * size}`)
  await stream.delete()
  return { value: count / seconds, cpu: (cpu / count) * 1000 }
}

// length reads a stream, answer by answer.
const length = async (stream) => {
  let bytes = 0
  for (let offset = "-1"; ; ) {
    const answer = await stream.stream({ offset, live: false })
    bytes += (await answer.body()).length
    if (answer.upToDate) return bytes
    offset = answer.offset
  }
}

// seen is how long an append takes until a long-poll that waits for it has it, in the median of 50.
const seen = async (server) => {
  const stream = await create(server)
  let offset = (await stream.head()).offset
  const times = []
  const before = processor(server)
  for (let i = 0; i < 51; i++) {
    const reader = await stream.stream({ offset, live: "long-poll" })
    const read = new Promise((resolve) => {
      const stop = reader.subscribeBytes((chunk) => {
        if (chunk.data.length === 0) return
        stop()
        reader.cancel()
        resolve(chunk.offset)
      })
    })
    const begin = performance.now()
    await stream.append(new Uint8Array(100).fill(42))
    offset = await read
    if (i > 0) times.push(performance.now() - begin)
  }
  const cpu = processor(server) - before
  await stream.delete()
  return { value: median(times), cpu: (cpu / 51) * 1000 }
}

const ping = async (server) => {
  const times = []
  const before = processor(server)
  for (let i = 0; i < 200; i++) {
    const begin = performance.now()
    await (await fetch(`${server.url}/health`)).arrayBuffer()
    times.push(performance.now() - begin)
  }
  return { value: median(times), cpu: ((processor(server) - before) / 200) * 1000 }
}

const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]

const loops = [
  ["a request that does nothing", "ms", ping],
  ["append of 100 B until a long-poll has it", "ms", seen],
  ["1,000 appends of 100 B, 75 side by side", "appends/s", appends(1000, 100, 75)],
  ["50 appends of 1 MiB, 15 side by side", "appends/s", appends(50, 1 << 20, 15)],
]
for (let round = 0; round <= rounds; round++) {
  for (const [name, , run] of loops) {
    for (const server of round % 2 ? servers : servers.toReversed()) {
      const got = await run(server)
      if (round > 0) server.seen.set(name, [...(server.seen.get(name) ?? []), got])
    }
  }
}

console.log(`| | ${servers.map(({ name }) => `${name} | CPU`).join(" | ")} |`)
console.log(`|---|${"---|---|".repeat(servers.length)}`)
for (const [name, unit] of loops) {
  const cells = servers.flatMap(({ seen }) => {
    const of = seen.get(name)
    return [`${median(of.map((g) => g.value)).toFixed(unit === "ms" ? 2 : 0)} ${unit}`, `${median(of.map((g) => g.cpu)).toFixed(2)} ms`]
  })
  console.log(`| ${name} | ${cells.join(" | ")} |`)
}
