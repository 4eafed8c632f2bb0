import { runConformanceTests } from "@durable-streams/server-conformance-tests"

runConformanceTests({ baseUrl: process.env.SPOOL_HTTP, subscriptions: true })
