// Package acp stands between an editor and an agent that speak the Agent Client Protocol, version 1 (JSON-RPC 2.0, a message a line):
// it records their sessions, and serves what it recorded.
//
//	editor ──FromEditor──▶ Proxy ──▶ agent       every line passes as it came; a message that is none of ours is never held
//	editor ◀── Proxy ◀──FromAgent── agent
//	             │
//	             ▼ entries (entries.go: what a message becomes), Log (log.go)
//
// Lines pass as bytes, decoded beside that by jsonscan, so that methods and members that nobody knows here reach the other side. Four
// messages are changed, all for sessions from the log (serve.go): the answer to initialize, which says that sessions can be listed, loaded
// and resumed; the answer to session/list, which has the log's sessions behind the agent's; the session's id in messages of a session that
// goes on in an agent that has not its history, which has an id of its own there; and the first prompt of such a session.
//
// Order, and what a crash leaves. A prompt is durable before the agent gets it, and all that it led to before the editor gets the
// answer to it. In between the editor is ahead of the log: what an agent streams is written when the piece ends, or holdFor after it
// began, and durable when a server has it. A kill of this process loses that, a window of it at most; the log has the turn, without an
// end. Who records cannot stop a session: after durableWithin the message passes all the same, and Config.Warn is told.
package acp
