// The suite names fs.globSync, which node has from version 22 on, and calls it for other work than ours.
import fs from "node:fs"
import { register } from "node:module"

if (!fs.globSync) {
  const withIt = "data:text/javascript," + encodeURIComponent(`
    export * from "node:fs"
    export { default } from "node:fs"
    export const globSync = () => { throw new Error("node 22 has globSync") }`)
  const hooks = `export const resolve = (name, at, next) => name === "fs" && at.parentURL?.includes("/conformance/dist/")
    ? { url: ${JSON.stringify(withIt)}, shortCircuit: true } : next(name, at)`
  register("data:text/javascript," + encodeURIComponent(hooks))
}
