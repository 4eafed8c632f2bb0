package persist

import (
	"strconv"

	"spool/internal/jsonscan"
	"spool/pkg/artifacts"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/threads"
	"spool/pkg/truncate/output"
)

// resultDialect is how an output's result is appended: as a thread item that Spool made itself.
const resultDialect = "item"

// result is the tool_result of an output, with its summary (SPEC O5) and a reference to its artifact (SPEC A4):
//
//	{"id":…,"content":[…],"metadata":{"type":"tool_result","tool":{…},"output":{"id",…},"artifact":{"type":"artifact_ref",…}}}
func (o *openOutput) result(p events.Chunk, sum output.Summary, a *artifacts.Record) []byte {
	aborted := p.Op == events.ChunkAbort
	id := o.rec.Start.Invocation
	if id == "" {
		id = o.rec.ID
	}
	it := events.ToolResult(id, p.End.IsError || aborted, jsonscan.AppendString(nil, sum.Output))

	b := make([]byte, 0, len(it.Content)+len(it.Metadata)+1024)
	b = jsonscan.AppendString(append(b, `{"id":`...), o.rec.ID)
	b = append(append(b, `,"content":`...), it.Content...)
	b = append(append(b, `,"metadata":`...), it.Metadata[:len(it.Metadata)-1]...)
	b = jsonscan.AppendString(append(b, `,"output":{"id":`...), o.rec.ID)
	b = strconv.AppendBool(append(b, `,"truncated":`...), sum.Truncated)
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"total_lines", sum.TotalLines}, {"total_bytes", sum.TotalBytes}, {"output_lines", sum.OutputLines}, {"output_bytes", sum.OutputBytes},
		{"column_dropped_bytes", sum.ColumnDroppedBytes}, {"column_truncated_lines", sum.ColumnTruncatedLines},
	} {
		b = append(append(append(b, `,"`...), n.name...), `":`...)
		b = strconv.AppendInt(b, n.value, 10)
	}
	if aborted {
		b = jsonscan.AppendString(append(b, `,"aborted":`...), p.Reason)
	} else {
		b = strconv.AppendInt(append(b, `,"exit_code":`...), int64(p.End.ExitCode), 10)
		b = strconv.AppendInt(append(b, `,"duration_ms":`...), p.End.DurationMS, 10)
	}
	if sum.ArtifactError != nil {
		b = jsonscan.AppendString(append(b, `,"artifact_error":`...), sum.ArtifactError.Error())
	}
	b = append(b, '}')
	if a != nil {
		b = append(b, `,"artifact":`...)
		b = append(b, artifacts.Ref{ID: a.ID, Summary: a.Summary, MIME: a.MIME}.JSON()...)
	}
	return append(b, "}}"...)
}

// artifact is the record of a whole output, which has the next number of its session (SPEC A1, A2).
func (n *counter) artifact(o *openOutput, sum output.Summary, at int64) *artifacts.Record {
	seq := n.rec.Take()
	r := artifacts.Record{
		ID: o.rec.Artifact, Session: o.session, Created: at, Seq: seq, Agent: o.rec.Start.Agent, Run: o.rec.Start.Run,
		ToolCall: o.rec.Start.Invocation, Filename: artifacts.ToolFile(seq, o.rec.Start.Tool), MIME: "text/plain", Size: o.body.size(),
		Summary:  strconv.FormatInt(sum.TotalLines, 10) + " lines, " + strconv.FormatInt(sum.TotalBytes, 10) + " bytes",
		Category: artifacts.Normal, Writer: artifacts.FromOutput,
	}
	r.Object = r.ObjectName()
	return &r
}

// pointer is the node by which a thread refers to an artifact.
func pointer(r *artifacts.Record) *casstore.Node {
	n := threads.Artifact{
		ID: string(r.ID), Session: r.Session, Seq: string(r.Seq), Filename: r.Filename, MIME: r.MIME, Summary: r.Summary, Size: r.Size,
	}.Node()
	return &n
}
