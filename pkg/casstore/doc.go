// Package casstore is the content-addressed store: refs, nodes and their one canonical encoding, packs that hold many nodes
// in one object, and the one-method roles that a store plays.
//
// It stands between pkg/threads, which knows what a node means, and the object stores, which know only bytes:
//
//	threads ── Node ──▶ PackBuilder ── header, body ──▶ the object store
//	threads ◀─ Node ─── Pack ◀──────── header, body ─── PackGetter (PackCache in front)
//
// A ref is the SHA-256 of what it names and carries its kind, so a reader checks all it reads and trusts no index: a
// corrupt byte is ErrCorrupt, never a wrong answer. docs/format.md is normative for the bytes (DESIGN 6 and 7).
//
// The package is pure: no clock, no logger, no goroutine, no network.
package casstore
