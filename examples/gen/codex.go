package main

import (
	"strings"
	"time"
)

const (
	codexThread = "019aa0c4-5be0-7c31-9f42-6d0e8b7a2c15"
	codexModel  = "gpt-5.6"
)

// codexFile writes envelopes with an ordinal, as rollouts of the paginated mode have.
type codexFile struct {
	file
	turn     string
	response int
	total    [3]int // input, cached, output of the thread so far
}

func (f *codexFile) envelope(typ string, payload object) {
	f.line(o("timestamp", f.stamp(), "ordinal", f.n, "type", typ, "payload", payload))
	f.n++
}

func (f *codexFile) item(typ string, members ...any) {
	f.after(600 * time.Millisecond)
	f.envelope("response_item", append(o("type", typ), members...))
}

func (f *codexFile) event(typ string, members ...any) {
	f.envelope("event_msg", append(o("type", typ), members...))
}

func (f *codexFile) completed(item object) {
	ms := f.now.UnixMilli()
	f.event("item_completed", "thread_id", codexThread, "turn_id", f.turn, "item", item, "started_at_ms", ms-900, "completed_at_ms", ms)
}

func (f *codexFile) begin(name, prompt string) {
	f.after(20 * time.Second)
	f.turn = "019aa0c4-" + digest("turn", name)[:4] + "-7" + digest("turn", name)[4:7] + "-8a11-" + digest("turn", name)[8:20]
	f.event("task_started", "turn_id", f.turn, "started_at", f.now.Unix(), "model_context_window", 258400, "collaboration_mode_kind", "default")
	f.item("message", "role", "user", "content", list{o("type", "input_text", "text", prompt)})
	f.completed(o("type", "UserMessage", "id", "u-"+name, "content", list{o("type", "text", "text", prompt, "text_elements", list{})}))
	f.envelope("turn_context", o("turn_id", f.turn, "cwd", orchardDir, "approval_policy", "on-request",
		"sandbox_policy", o("type", "workspace-write", "network_access", false), "model", codexModel, "summary", "auto"))
}

func (f *codexFile) thinks(summary string) {
	f.item("reasoning", "summary", list{o("type", "summary_text", "text", summary)}, "content", nil, "encrypted_content", "gAAAAAB"+opaque(150, summary))
}

func (f *codexFile) says(text string) {
	f.item("message", "role", "assistant", "phase", "final_answer", "content", list{o("type", "output_text", "text", text)})
	f.completed(o("type", "AgentMessage", "id", "a-"+digest(text)[:8], "content", list{o("type", "Text", "text", text)}, "phase", "final_answer"))
}

// runs is a command: the call, its output, and the event that knows the exit code.
func (f *codexFile) runs(id, command, output string, code int) {
	f.item("function_call", "name", "exec_command", "arguments", string(encode(o("cmd", command, "workdir", orchardDir))), "call_id", id)
	f.after(2 * time.Second)
	f.item("function_call_output", "call_id", id, "output", output)
	status := "completed"
	if code != 0 {
		status = "failed"
	}
	f.completed(o("type", "CommandExecution", "id", id, "command", list{"bash", "-lc", command}, "cwd", orchardDir, "stdout", output,
		"stderr", "", "aggregated_output", output, "formatted_output", output, "exit_code", code, "status", status))
}

func (f *codexFile) patches(id, file, before, after string) {
	patch := strings.Join([]string{"*** Begin Patch", "*** Update File: " + file, "@@", "-" + before, "+" + after, "*** End Patch"}, "\n")
	f.item("custom_tool_call", "status", "completed", "call_id", id, "name", "apply_patch", "input", patch)
	f.item("custom_tool_call_output", "call_id", id, "output", "Success. Updated the following files:\nM "+file+"\n")
}

func (f *codexFile) usage(input, cached, output int) {
	f.response++
	f.total = [3]int{f.total[0] + input, f.total[1] + cached, f.total[2] + output}
	f.envelope("token_usage_record", o("thread_id", codexThread, "turn_id", f.turn, "response_id", "resp_"+digest("resp", f.response)[:12],
		"usage", tokens(input, cached, output), "thread_token_usage", tokens(f.total[0], f.total[1], f.total[2])))
	f.event("token_count", "info", o("total_token_usage", tokens(f.total[0], f.total[1], f.total[2]),
		"last_token_usage", tokens(input, cached, output), "model_context_window", 258400), "rate_limits", nil)
}

func tokens(input, cached, output int) object {
	return o("input_tokens", input, "cached_input_tokens", cached, "cache_write_input_tokens", 0, "output_tokens", output,
		"reasoning_output_tokens", output/4, "total_tokens", input+output)
}

func (f *codexFile) done(last string, seconds int64) {
	f.event("task_complete", "turn_id", f.turn, "last_agent_message", last, "started_at", f.now.Unix()-seconds, "completed_at", f.now.Unix(),
		"duration_ms", seconds*1000+215)
}

// codexRollout is a rollout: harvest labels with the right date, one idea tried and taken back.
func codexRollout() []byte {
	f := &codexFile{}
	f.now = time.Date(2026, 11, 20, 9, 15, 0, 0, time.UTC)
	f.envelope("session_meta", o("session_id", codexThread, "id", codexThread, "timestamp", f.stamp(), "cwd", orchardDir, "originator", "codex_cli_rs",
		"cli_version", "0.169.0", "source", "cli", "thread_source", "user", "model_provider", "openai",
		"base_instructions", o("text", "You are a careful pair programmer. Prefer small changes that the tests can see."),
		"history_mode", "paginated", "context_window", o("window_id", uuid("window", 1)),
		"git", o("commit_hash", digest("commit")[:40], "branch", "harvest-labels")))
	f.item("message", "role", "developer", "content", list{o("type", "input_text", "text", "<permissions instructions>\nWrites stay inside the workspace.\n</permissions instructions>")})
	f.item("message", "role", "user", "content", list{o("type", "input_text", "text", "<environment_context>\n  <cwd>"+orchardDir+"</cwd>\n  <shell>bash</shell>\n</environment_context>")})
	f.labelTurn()
	f.windowTurn()
	f.compact()
	f.rolledBackTurn()
	return f.out.Bytes()
}

func (f *codexFile) labelTurn() {
	f.begin("labels", "The crate labels print yesterday's date when I pack in the evening. Please fix that.")
	f.thinks("**Looking for the date**\n\nLabels use a date from somewhere; evening trouble hints at a fixed cut-off hour. I will run the label tests and search for the date.")
	f.runs("call_tests", "go test ./label", "--- FAIL: TestEvening (0.00s)\n    label_test.go:44: printed 19 November, want 20 November\nFAIL\nFAIL\tgithub.com/mira/orchard/label\t0.006s\n", 1)
	f.runs("call_grep", "grep -rn packDay --include=*.go .", "./label/label.go:18:\tpackDay := now.Add(-8 * time.Hour)\n./label/label.go:27:\tp.Line(packDay.Format(\"2 January\"))\n", 0)
	f.usage(9840, 0, 212)
	f.thinks("**Fixing the offset**\n\nThe subtraction of eight hours was meant for night shifts. A crate's day is simply the local day.")
	f.patches("call_patch", "label/label.go", "\tpackDay := now.Add(-8 * time.Hour)", "\tpackDay := now.In(barn)")
	f.runs("call_again", "go test ./label", "ok  \tgithub.com/mira/orchard/label\t0.005s\n", 0)
	last := "Fixed: labels use the barn's local day. The old code took eight hours off, which moved every evening crate to the day before."
	f.says(last)
	f.usage(12_480, 9600, 318)
	f.done(last, 24)
}

func (f *codexFile) windowTurn() {
	f.begin("variety", "Could the label also show the picking window of the variety? Bramley is 10 to 25 October, I think.")
	f.thinks("**Where windows live**\n\nThe varieties file may already hold the windows. Look before adding a second source of truth.")
	f.runs("call_varieties", "jq -c '.[] | {name, window}' data/varieties.json", "{\"name\":\"Bramley\",\"window\":[\"10-08\",\"10-24\"]}\n{\"name\":\"Opal\",\"window\":[\"08-12\",\"08-22\"]}\n", 0)
	f.patches("call_window", "label/label.go", "\tp.Line(crate.Variety)", "\tp.Line(crate.Variety + \", \" + window(crate.Variety))")
	last := "Labels now show the window from data/varieties.json. For Bramley that is 8 to 24 October, not 10 to 25; you may want to check which is right. 🍏"
	f.says(last)
	f.usage(13_900, 12_400, 260)
	f.done(last, 17)
}

func (f *codexFile) compact() {
	f.after(10 * time.Second)
	f.envelope("compacted", o("message", "Labels print the barn's local day (label/label.go, tested). They also show each variety's picking window from data/varieties.json; "+
		"Mira may correct Bramley's.", "replacement_history", list{
		o("type", "message", "role", "user", "content", list{o("type", "input_text", "text", "The crate labels print yesterday's date when I pack in the evening. Please fix that.")}),
	}, "window_number", 1, "window_id", uuid("window", 2)))
}

// rolledBackTurn tries an idea; Mira stops it, goes back, and asks for less.
func (f *codexFile) rolledBackTurn() {
	f.begin("qr", "Put a QR code with the row's history on each label.")
	f.thinks("**A QR code needs a library**\n\nThe module has no dependencies so far. I would look for something small.")
	f.item("function_call", "name", "exec_command", "arguments", string(encode(o("cmd", "go list -m -versions example.com/qr", "workdir", orchardDir))), "call_id", "call_qr")
	f.after(9 * time.Second)
	f.item("function_call_output", "call_id", "call_qr", "output", "aborted by user after 9.0s")
	f.event("turn_aborted", "turn_id", f.turn, "reason", "interrupted", "completed_at", f.now.Unix(), "duration_ms", 11_300)
	f.after(5 * time.Second)
	f.event("thread_rolled_back", "num_turns", 1)
	f.begin("row", "Forget the QR code. Just print the row number under the variety.")
	f.patches("call_row", "label/label.go", "\tp.Cut()", "\tp.Line(fmt.Sprintf(\"Row %02d\", crate.Row))\n+\tp.Cut()")
	f.runs("call_last", "go test ./...", "ok  \tgithub.com/mira/orchard\t0.030s\nok  \tgithub.com/mira/orchard/label\t0.006s\n", 0)
	last := "The row number is printed under the variety, and all tests pass."
	f.says(last)
	f.usage(4_120, 3_000, 140)
	f.done(last, 12)
}
