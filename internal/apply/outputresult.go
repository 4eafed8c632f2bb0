package apply

import (
	"cmp"
	"strconv"
	"strings"

	"spool/internal/jsonscan"
	"spool/pkg/artifacts"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/threads"
	"spool/pkg/truncate/output"
)

// result is the tool_result of an output, with its summary (SPEC O5) and a reference to its artifact (SPEC A4):
//
//	{"id":…,"content":[…],"metadata":{"type":"tool_result","tool":{…},"output":{"id",…},"artifact":{"type":"artifact_ref",…}}}
func (o *Output) result(p *events.Chunk, sum output.Summary, a *artifacts.Record) []byte {
	aborted := p.Op == events.ChunkAbort
	id := cmp.Or(o.Rec.Start.Invocation, o.Rec.ID)
	it := events.ToolResultOf(id, p.End.IsError || aborted, jsonscan.AppendString(nil, sum.Output), int(printed(sum)))

	b := make([]byte, 0, len(it.Content)+len(it.Metadata)+1024)
	b = jsonscan.AppendString(append(b, `{"id":`...), o.Rec.ID)
	b = append(append(b, `,"content":`...), it.Content...)
	b = append(append(b, `,"metadata":`...), it.Metadata[:len(it.Metadata)-1]...)
	b = jsonscan.AppendString(append(b, `,"output":{"id":`...), o.Rec.ID)
	b = strconv.AppendBool(append(b, `,"truncated":`...), sum.Truncated)
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"total_lines", sum.TotalLines}, {"total_bytes", sum.TotalBytes},
		{"output_lines", sum.OutputLines}, {"output_bytes", sum.OutputBytes},
		{"column_dropped_bytes", sum.ColumnDroppedBytes}, {"column_truncated_lines", sum.ColumnTruncatedLines},
	} {
		b = append(append(append(b, `,"`...), n.name...), `":`...)
		b = strconv.AppendInt(b, n.value, 10)
	}
	if sum.ElidedBytes > 0 {
		b = strconv.AppendInt(append(b, `,"elided_bytes":`...), sum.ElidedBytes, 10)
		b = strconv.AppendInt(append(b, `,"elided_lines":`...), sum.ElidedLines, 10)
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

// printed is how many lines were printed. Where a newline ends the last one, TotalLines counts one more (SPEC O5).
func printed(sum output.Summary) int64 {
	if strings.HasSuffix(sum.Output, "\n") {
		return sum.TotalLines - 1
	}
	return sum.TotalLines
}

// wholeOutput is the record of a whole output of a run, which has the next number of its session (SPEC A1, A2).
func (d *draft) wholeOutput(o *Output, sum output.Summary, run string, at int64) *artifacts.Record {
	seq := d.number()
	r := artifacts.Record{
		ID: o.Rec.Artifact, Session: d.st.Key.Session, Created: at, Seq: seq, Agent: o.Rec.Start.Agent, Run: run,
		ToolCall: o.Rec.Start.Invocation, Filename: artifacts.ToolFile(seq, o.Rec.Start.Tool), MIME: "text/plain",
		Size:     o.body.bytes,
		Summary:  strconv.FormatInt(printed(sum), 10) + " lines, " + strconv.FormatInt(sum.TotalBytes, 10) + " bytes",
		Category: artifacts.Normal, Writer: artifacts.FromOutput,
	}
	r.Object = r.ObjectName()
	return &r
}

// pointer is the node by which a thread refers to an artifact.
func pointer(r *artifacts.Record) *casstore.Node {
	n := threads.Artifact{
		ID: string(r.ID), Session: r.Session, Seq: string(r.Seq), Filename: r.Filename, MIME: r.MIME, Summary: r.Summary,
		Size: r.Size,
	}.Node()
	return &n
}
