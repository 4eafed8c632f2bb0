package dialect_test

import (
	"strings"
	"testing"

	"spool/internal/must"
	"spool/pkg/dialect"
)

// filler is prose of n bytes with the escapes that real messages have.
func filler(n int) string {
	const line = `The gap is set by the upper stone; a \"notch\" is a quarter turn.\nListen to the sound before you change it.\n`
	return strings.Repeat(line, n/len(line)+1)[:n/len(line)*len(line)]
}

// benchLines are entries of about 2 KB.
var benchLines = map[string]string{
	"claude/assistant": `{"parentUuid":"00000000-0000-4000-8000-000000000001","isSidechain":false,"userType":"external","cwd":"/srv/mill","sessionId":"5f0c9a52-7d0e-4f0b-9a3e-2f6f1c0d7e11","version":"2.1.240","gitBranch":"main","uuid":"00000000-0000-4000-8000-000000000002","timestamp":"2026-11-20T12:00:02.000Z","type":"assistant","message":{"id":"msg_01A","type":"message","role":"assistant","model":"claude-opus-4-8","content":[{"type":"text","text":"` +
		filler(1300) + `"}],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":12,"cache_creation_input_tokens":974,"cache_read_input_tokens":9600,"output_tokens":131,"service_tier":"standard"}},"requestId":"req_011A"}`,
	"claude/result": `{"parentUuid":"00000000-0000-4000-8000-000000000001","isSidechain":false,"userType":"external","cwd":"/srv/mill","sessionId":"5f0c9a52-7d0e-4f0b-9a3e-2f6f1c0d7e11","version":"2.1.240","gitBranch":"main","uuid":"00000000-0000-4000-8000-000000000002","timestamp":"2026-11-20T12:00:02.000Z","type":"user","message":{"role":"user","content":[{"tool_use_id":"toolu_01X","type":"tool_result","content":"` +
		filler(800) + `","is_error":false}]},"toolUseResult":{"stdout":"` + filler(800) + `","stderr":"","interrupted":false,"isImage":false}}`,
	"omp/assistant": `{"type":"message","id":"b1c2d3e4","parentId":"a1b2c3d4","timestamp":"2026-11-20T12:00:02.000Z","message":{"role":"assistant","content":[{"type":"text","text":"` +
		filler(1200) + `"},{"type":"toolCall","id":"call_1","name":"bash","arguments":{"command":"mill run"}}],"api":"anthropic-messages","provider":"anthropic","model":"claude-sonnet-4-6","usage":{"input":3,"output":191,"cacheRead":0,"cacheWrite":1684,"cost":{"input":0.1,"output":0.2,"cacheRead":0,"cacheWrite":0.1,"total":0.4}},"stopReason":"toolUse","timestamp":1763681630793}}`,
	"omp/result": `{"type":"message","id":"b1c2d3e4","parentId":"a1b2c3d4","timestamp":"2026-11-20T12:00:02.000Z","message":{"role":"toolResult","toolCallId":"call_1","toolName":"read","content":[{"type":"text","text":"` +
		filler(1700) + `"}],"isError":false,"timestamp":1763681634574}}`,
	"codex/output":  `{"timestamp":"2026-11-20T12:00:09.000Z","ordinal":7,"type":"response_item","payload":{"type":"function_call_output","call_id":"call_1","output":"` + filler(1800) + `"}}`,
	"codex/message": `{"timestamp":"2026-11-20T12:00:09.000Z","ordinal":7,"type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"` + filler(1800) + `"}]}}`,
	"item/text":     `{"content":[{"type":"text","text":"` + filler(1900) + `"}],"metadata":{"type":"text"}}`,
	"step/coder":    `{"role":"coder","meta":{"round":1},"content":"` + filler(1900) + `","refs":[],"timestamp":1795176001000}`,
}

func BenchmarkRead(b *testing.B) {
	for name, line := range benchLines {
		b.Run(name, func(b *testing.B) {
			d, _ := dialect.Lookup(name[:strings.Index(name, "/")])
			raw := []byte(line)
			var m dialect.Memory
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				m = dialect.Memory{}
				must.Get(d.Read(raw, &m))(b)
			}
		})
	}
}
