// The server of the protocol's authors, which syncs each append to a file. It prints its address.
import { DurableStreamTestServer } from "@durable-streams/server"

const server = new DurableStreamTestServer({ port: 0, dataDir: process.argv[2] })
console.log(await server.start())
