// Package artifacts is what a session's run leaves behind beside its entries: whole tool outputs, the outputs of
// subagents, provider traces (SPEC A; seeds 000, 001).
//
// It stands beside the dialects: the persister makes a [Record] of whatever is too large for a message ([Thresholds]) and
// leaves a [Ref] there; a reader turns artifact://3, agent://0-Review/findings/0 or blob:sha256:… back into bytes with
// [Sources]. Bytes live elsewhere, as the object that the record names.
//
//	text ──Thresholds──▶ Record (artifact_id, seq) ──▶ registry      Ref ──▶ the message
//	artifact://<seq> ──Sources──▶ Dir of the session ──▶ bytes, by lines
//	Cleanup, Delete, Activity: what may go, and why
//
// Artifacts are never hashed, deduplicated or collected: they go by [Clean], [Delete] or with their session (SPEC A5). The
// package is pure: times and entropy are given, storage is an interface of the caller's.
package artifacts
