// Compares what the suite wrote of its checks with the list of those that are expected to fail: DIR/VERSION/server-SCENARIO-TIME/checks.json.
import { readdirSync, readFileSync } from "node:fs"

const [dir, list] = process.argv.slice(2)
const expected = new Set(readFileSync(list, "utf8").split("\n").filter((l) => l && !l.startsWith("#")))
const failed = new Map()
for (const version of ["2025-11-25", "2026-07-28"]) {
  let passed = 0
  const scenarios = readdirSync(`${dir}/${version}`)
  for (const name of scenarios) {
    const scenario = name.replace(/^server-/, "").replace(/-\d{4}-\d\d-\d\dT[\d-]+Z$/, "")
    if (scenario.startsWith("tasks-")) continue // an extension
    for (const check of JSON.parse(readFileSync(`${dir}/${version}/${name}/checks.json`, "utf8"))) {
      if (check.status === "SUCCESS") passed++
      if (check.status === "FAILURE") failed.set(`${version} ${scenario} ${check.id}`, check.errorMessage)
    }
  }
  console.log(`${version}: ${scenarios.length} scenarios, ${passed} checks passed`)
  if (passed < 30) throw new Error("so few checks: has the suite run?")
}
const wrong = [...failed].filter(([check]) => !expected.has(check)).map(([check, why]) => `FAILED: ${check}: ${why}`)
for (const check of expected) {
  if (!failed.has(check)) wrong.push(`passes, and is expected to fail; take it off the list: ${check}`)
}
for (const line of wrong) console.log(line)
console.log(`${failed.size} checks failed, ${expected.size} were expected to`)
process.exit(wrong.length > 0 ? 1 : 0)
