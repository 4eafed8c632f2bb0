// Package ingest takes raw entries from whoever has no Spool client: lines of a pipe, bodies of HTTP requests.
//
//	bytes ─▶ lines ─▶ check: JSON, names, dialect ─▶ batch ─▶ Publisher ─▶ a result for each line, in order
//
// A line that cannot be an entry is refused with a reason and stops nothing (SPEC B2). A batch goes out when it is full or
// its first line has waited for Config.Wait, so that a live pipe is in its thread at once and a file goes in few batches.
//
// The sequence of a line is its place in the stream, so that a client that names its producer may send the same bytes again
// after any error: what is there already is skipped.
package ingest
