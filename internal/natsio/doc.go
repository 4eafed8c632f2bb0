// Package natsio is Spool's way to JetStream: the topology as data, atomic batches over the record bucket, objects in
// the object store's public layout, pinned partition consumers, and publishing. In production only it, and packages
// that build on it (Streams), import nats.go. Its users see a connection as roles (roles.go).
//
// Three facts about JetStream shape it. An atomic batch lives inside one stream, so every fact that decides existence
// is a record of one bucket. A delete, a purge and an expiry are not ordered with conditional publishes on a replicated
// stream, so nothing here deletes what a record may name. And a request that timed out may have been carried out, so
// every error says which of the two it is: refused, or unknown.
package natsio
