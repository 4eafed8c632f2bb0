package dialect_test

import (
	"strings"
	"testing"

	"spool/internal/must"
	"spool/pkg/dialect"
)

// turns is how versions that leave stop_reason null write two prompts, a command with arguments and one without.
const turns = `{"type":"user","uuid":"u1","timestamp":"2026-11-20T12:00:00.000Z","message":{"role":"user","content":"first"}}
{"type":"assistant","uuid":"a1","timestamp":"2026-11-20T12:00:02.000Z","message":{"id":"m1","role":"assistant","stop_reason":null,"usage":{"input_tokens":10,"cache_read_input_tokens":90,"output_tokens":5},"content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls"}}]}}
{"type":"user","uuid":"u2","timestamp":"2026-11-20T12:00:04.000Z","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"x"},{"type":"text","text":"steer"}]}}
{"type":"assistant","uuid":"a2","timestamp":"2026-11-20T12:00:07.000Z","message":{"id":"m2","role":"assistant","stop_reason":null,"usage":{"input_tokens":200,"output_tokens":7},"content":[{"type":"text","text":"done"}]}}
{"type":"user","uuid":"u3","timestamp":"2026-11-20T13:00:00.000Z","message":{"role":"user","content":"<command-message>review is running…</command-message>\n<command-name>/review</command-name>\n<command-args> the parser </command-args>"}}
{"type":"assistant","uuid":"a3","timestamp":"2026-11-20T13:00:05.000Z","message":{"id":"m3","role":"assistant","stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":2},"content":[{"type":"text","text":"ok"}]}}
{"type":"user","uuid":"u4","timestamp":"2026-11-20T13:01:00.000Z","message":{"role":"user","content":"<command-name>/clear</command-name>\n<command-message>clear</command-message>\n<command-args></command-args>"}}
{"type":"user","uuid":"u5","timestamp":"2026-11-20T13:02:00.000Z","message":{"role":"user","content":"last"}}`

// A prompt is the evidence of the end of a turn that nothing else ends, with the figures of the turn; a command with
// arguments is what a person said; what stands beside a tool's result steers. The first version is as it was, and each
// entry is read again the same with the memory that stood before it (SPEC I2, DESIGN 8).
func TestTurnsThatPromptsEnd(t *testing.T) {
	for version, want := range map[int][]string{
		1: {`first`, ``, `steer`, `done`, ``,
			`ok "input_tokens":203,"input_tokens_cached":0,"output_tokens":9,"duration_ms":3601000`, ``, `last`},
		2: {`first`, ``, `steer`, `done`,
			`"input_tokens":300,"input_tokens_cached":90,"output_tokens":12,"duration_ms":7000 /review the parser`,
			`ok "input_tokens":3,"input_tokens_cached":0,"output_tokens":2,"duration_ms":5000`, ``, `last`},
	} {
		readTurns(t, "claude", version, turns, want)
	}
}

// rollouts are turns of Codex that nothing but the next one ends: one that was killed, one whose tokens are told behind its
// end, and as programs write them that tell no beginnings and ends.
var rollouts = map[string]string{
	"killed": `{"timestamp":"2026-11-20T12:00:00.000Z","type":"event_msg","payload":{"type":"task_started"}}
{"timestamp":"2026-11-20T12:00:01.000Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"one"}]}}
{"timestamp":"2026-11-20T12:00:04.000Z","type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"total_tokens":12},"last_token_usage":{"input_tokens":10,"cached_input_tokens":4,"output_tokens":2}}}}
{"timestamp":"2026-11-20T12:00:05.000Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"steer"}]}}
{"timestamp":"2026-11-20T13:00:00.000Z","type":"event_msg","payload":{"type":"task_started"}}
{"timestamp":"2026-11-20T13:00:03.000Z","type":"token_usage_record","payload":{"response_id":"r","usage":{"input_tokens":30,"output_tokens":3}}}
{"timestamp":"2026-11-20T13:00:04.000Z","type":"event_msg","payload":{"type":"task_complete"}}
{"timestamp":"2026-11-20T13:00:05.000Z","type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"total_tokens":45},"last_token_usage":{"input_tokens":30,"output_tokens":3}}}}
{"timestamp":"2026-11-20T14:00:00.000Z","type":"event_msg","payload":{"type":"task_started"}}`,
	"late": `{"timestamp":"2026-11-20T12:00:00.000Z","type":"event_msg","payload":{"type":"task_started"}}
{"timestamp":"2026-11-20T12:00:03.000Z","type":"event_msg","payload":{"type":"task_complete"}}
{"timestamp":"2026-11-20T12:00:04.000Z","type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"total_tokens":12},"last_token_usage":{"input_tokens":10,"output_tokens":2}}}}
{"timestamp":"2026-11-20T13:00:00.000Z","type":"event_msg","payload":{"type":"task_started"}}`,
	"silent": `{"timestamp":"2026-11-20T12:00:00.000Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"one"}]}}
{"timestamp":"2026-11-20T12:00:02.000Z","type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"1"}]}}
{"timestamp":"2026-11-20T12:00:04.000Z","type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"total_tokens":12},"last_token_usage":{"input_tokens":10,"output_tokens":2}}}}
{"timestamp":"2026-11-20T13:00:00.000Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"two"}]}}
{"timestamp":"2026-11-20T13:00:01.000Z","type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"total_tokens":13},"last_token_usage":{"input_tokens":1,"output_tokens":0}}}}
{"timestamp":"2026-11-20T13:10:00.000Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"three"}]}}`,
}

// A turn of Codex ends with its tokens, also where nothing but what comes next tells of its end, and what stands behind an
// end is told with the next one. The first version is as it was (SPEC I2, X7, DESIGN 8).
func TestTurnsOfCodex(t *testing.T) {
	const killed = `"input_tokens":10,"input_tokens_cached":4,"output_tokens":2,"duration_ms":4000`
	for name, want := range map[string]map[int][]string{
		"killed": {
			1: {``, `one`, ``, `steer`, ``, ``, `"input_tokens":30,"input_tokens_cached":0,"output_tokens":3,"duration_ms":4000`, ``, ``},
			2: {``, `one`, ``, `steer`, killed, ``, `"input_tokens":30,"input_tokens_cached":0,"output_tokens":3,"duration_ms":4000`, ``, ``},
		},
		"late": {
			1: {``, `"input_tokens":0,"input_tokens_cached":0,"output_tokens":0,"duration_ms":3000`, ``, ``},
			2: {``, `"input_tokens":0,"input_tokens_cached":0,"output_tokens":0,"duration_ms":3000`, ``,
				`"input_tokens":10,"input_tokens_cached":0,"output_tokens":2,"duration_ms":0`},
		},
		"silent": {
			1: {`one`, `1`, ``, `two`, ``, `three`},
			2: {`one`, `1`, ``, `"input_tokens":10,"input_tokens_cached":0,"output_tokens":2,"duration_ms":4000 two`, ``,
				`"input_tokens":1,"input_tokens_cached":0,"output_tokens":0,"duration_ms":1000 three`},
		},
	} {
		for version, want := range want {
			readTurns(t, "codex", version, rollouts[name], want)
		}
	}
}

// readTurns reads lines one after the other, and each again with the memory that stood before it.
func readTurns(t *testing.T, name string, version int, text string, want []string) {
	t.Helper()
	d, ok := dialect.Made(name, version)
	if !ok || d.Version() != version {
		t.Fatalf("%s/%d is not there", name, version)
	}
	var m dialect.Memory
	for i, line := range strings.Split(text, "\n") {
		before := m.Encode()
		e := must.Get(d.Read([]byte(line), &m))(t)
		must.Same(t, said(e), want[i], "version %d, line %d: %q, want %q", version, i+1)
		if !m.Used() {
			before = nil
		}
		again := must.Get(dialect.DecodeMemory(before))(t)
		if got := said(must.Get(d.Read([]byte(line), &again))(t)); got != said(e) {
			t.Errorf("version %d, line %d is read again as %q, was %q", version, i+1, got, said(e))
		}
	}
}

// said is what the items of an entry show: texts, and the figures of turns.
func said(e dialect.Entry) string {
	var all []string
	for _, it := range e.Items {
		text := strings.TrimSuffix(strings.TrimPrefix(string(it.Content), `[{"type":"text","text":"`), `"}]`)
		switch _, stats, ended := strings.Cut(string(it.Metadata), `"stats":{`); {
		case ended:
			all = append(all, strings.TrimSuffix(stats, "}}"))
		case it.Type == "" || it.Type == "text":
			all = append(all, text)
		}
	}
	return strings.Join(all, " ")
}
