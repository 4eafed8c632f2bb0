package main

import (
	"fmt"
	"strings"
	"time"
)

const (
	claudeSession = "7b3e1c52-9d4a-4f61-8a20-5c1de0f4a9b3"
	claudeAgent   = "a4f19c27"
	claudeModel   = "claude-opus-4-8"
	orchardDir    = "/home/mira/orchard"
)

// claudeFile writes lines as Claude Code chains them.
type claudeFile struct {
	file
	parent any
	branch string
	agent  string
	msg    string // id of the message being written
	usage  object
	slug   string
}

func newClaude(agent string, start time.Time) *claudeFile {
	f := &claudeFile{branch: "main", agent: agent, slug: "patient-blossom-wren"}
	f.now = start
	return f
}

// chained writes a line with the common members around its own.
func (f *claudeFile) chained(typ string, own object, extra ...any) string {
	f.n++
	id := uuid("claude", f.agent, f.n)
	line := o("parentUuid", f.parent, "isSidechain", f.agent != "", "userType", "external", "cwd", orchardDir,
		"sessionId", claudeSession, "version", "2.1.240", "gitBranch", f.branch, "slug", f.slug)
	if f.agent != "" {
		line = append(line, "agentId", f.agent)
	}
	line = append(line, "type", typ)
	line = append(append(line, own...), "uuid", id, "timestamp", f.stamp())
	f.line(append(line, extra...))
	f.parent = id
	return id
}

func (f *claudeFile) user(content any, own ...any) {
	f.chained("user", append(o("message", o("role", "user", "content", content)), own...))
}

// message begins an assistant message; each block that follows is a line of its own that repeats id and usage.
func (f *claudeFile) message(input, cached, written, output int) {
	f.n++
	f.msg = "msg_01" + digest("msg", f.agent, f.n)[:22]
	f.usage = o("input_tokens", input, "cache_creation_input_tokens", written, "cache_read_input_tokens", cached,
		"output_tokens", output, "service_tier", "standard")
}

func (f *claudeFile) block(b object, stop any) {
	f.after(1400 * time.Millisecond)
	f.chained("assistant", o("message", o("model", claudeModel, "id", f.msg, "type", "message", "role", "assistant",
		"content", list{b}, "stop_reason", stop, "stop_sequence", nil, "usage", f.usage),
		"requestId", "req_011"+f.msg[6:22]))
}

func (f *claudeFile) thinks(text string) {
	f.block(o("type", "thinking", "thinking", text, "signature", opaque(180, text)), nil)
}

func (f *claudeFile) says(text string) { f.block(o("type", "text", "text", text), nil) }

func (f *claudeFile) calls(id, name string, input object) {
	f.block(o("type", "tool_use", "id", id, "name", name, "input", input), nil)
}

func (f *claudeFile) result(id string, content any, toolUseResult any) {
	f.after(2300 * time.Millisecond)
	own := o("message", o("role", "user", "content", list{o("tool_use_id", id, "type", "tool_result", "content", content, "is_error", false)}))
	if toolUseResult != nil {
		own = append(own, "toolUseResult", toolUseResult)
	}
	f.chained("user", own)
}

func (f *claudeFile) fails(id, content string) {
	f.after(1900 * time.Millisecond)
	f.chained("user", o("message", o("role", "user", "content",
		list{o("type", "tool_result", "content", content, "is_error", true, "tool_use_id", id)}), "toolUseResult", "Error: "+content))
}

// numbered is code as the Read tool shows it.
func numbered(first int, code string) string {
	var b strings.Builder
	for line := range strings.Lines(code) {
		fmt.Fprintf(&b, "%6d→%s", first, line)
		first++
	}
	return b.String()
}

func bash(stdout string) object {
	return o("stdout", stdout, "stderr", "", "interrupted", false, "isImage", false)
}

func (f *claudeFile) duration(ms int) {
	f.chained("system", o("subtype", "turn_duration", "durationMs", ms, "isMeta", false))
}

// claudeMain is the main file: the frost warning of the orchard tool is late, and why.
func claudeMain() []byte {
	f := newClaude("", time.Date(2026, 11, 20, 9, 2, 11, 0, time.UTC))
	f.line(o("type", "permission-mode", "permissionMode", "default", "sessionId", claudeSession))
	f.line(o("type", "file-history-snapshot", "messageId", uuid("snapshot"), "snapshot",
		o("messageId", uuid("snapshot"), "trackedFileBackups", o(), "timestamp", f.stamp()), "isSnapshotUpdate", false))
	f.frostTurn()
	f.chartTurn()
	f.exportTurn()
	f.compacted()
	f.line(o("type", "summary", "summary", "Frost warnings came a day late", "leafUuid", f.parent))
	f.line(o("type", "ai-title", "aiTitle", "Fix the late frost warning and redraw the bloom chart", "sessionId", claudeSession))
	f.line(o("type", "weather-annotation", "station", "row-07", "note", "first frost of the season", "sessionId", claudeSession, "timestamp", f.stamp()))
	return f.out.Bytes()
}

func (f *claudeFile) frostTurn() {
	f.user("The frost warning for last night arrived this morning, when the blossom was already white. Can you find out why it is late?")
	f.message(14, 0, 11820, 212)
	f.thinks("A warning that is exactly one night late smells like a date boundary. The forecast is fetched in UTC, and the " +
		"orchard is east of Greenwich, so an evening run would compare tomorrow's frost with today's date. I should look at " +
		"how forecast.go picks the night, and run the tests to see what they cover.")
	f.says("A warning that is one night late is usually a date boundary. Let me look at how the night is chosen and what the tests cover.")
	f.calls("toolu_01FrostTests", "Bash", o("command", "go test ./forecast/...", "description", "Run the forecast tests"))
	f.calls("toolu_01ReadNight", "Read", o("file_path", orchardDir+"/forecast/night.go"))
	out := "ok  \tgithub.com/mira/orchard/forecast\t0.214s\nok  \tgithub.com/mira/orchard/forecast/station\t0.087s"
	f.result("toolu_01FrostTests", out, bash(out))
	code := "package forecast\n\n// Night returns the hours that the warning for day covers.\nfunc Night(day time.Time) (from, to time.Time) {\n" +
		"\tfrom = day.Truncate(24 * time.Hour).Add(18 * time.Hour)\n\treturn from, from.Add(14 * time.Hour)\n}\n"
	f.result("toolu_01ReadNight", numbered(1, code), o("type", "text", "file", o("filePath", orchardDir+"/forecast/night.go",
		"content", code, "numLines", 8, "startLine", 1, "totalLines", 8)))
	f.message(9, 11834, 1420, 388)
	f.says("`Truncate(24h)` cuts at midnight UTC, so after one in the morning local time the “night” is already the next one. I will add a test that shows it before I change anything.")
	f.calls("toolu_01WriteTest", "Edit", o("file_path", orchardDir+"/forecast/night_test.go", "old_string", "var nights = []struct{",
		"new_string", "// A run after midnight must still warn about the night it is in.\nvar nights = []struct{"))
	f.result("toolu_01WriteTest", "The file "+orchardDir+"/forecast/night_test.go has been updated.", o("filePath", orchardDir+"/forecast/night_test.go",
		"oldString", "var nights = []struct{", "replaceAll", false, "userModified", false))
	f.calls("toolu_01TestRed", "Bash", o("command", "go test ./forecast/ -run Night\necho done", "description", "See the new test fail"))
	f.fails("toolu_01TestRed", "Exit code 1\n--- FAIL: TestNight/after_midnight (0.00s)\n    night_test.go:31: Night(01:30) starts 2026-04-12 18:00, want 2026-04-11 18:00\nFAIL")
	f.message(7, 13254, 610, 274)
	f.calls("toolu_01FixNight", "Edit", o("file_path", orchardDir+"/forecast/night.go", "old_string", "day.Truncate(24 * time.Hour)",
		"new_string", "midnight(day.In(station.Zone()).Add(-8 * time.Hour))"))
	f.result("toolu_01FixNight", "The file "+orchardDir+"/forecast/night.go has been updated.", nil)
	f.calls("toolu_01TestGreen", "Bash", o("command", "go test ./...", "description", "Run all tests"))
	green := "ok  \tgithub.com/mira/orchard\t0.031s\nok  \tgithub.com/mira/orchard/forecast\t0.219s\nok  \tgithub.com/mira/orchard/forecast/station\t(cached)"
	f.result("toolu_01TestGreen", green, bash(green))
	f.message(6, 13864, 240, 96)
	f.says("Found and fixed: the night was cut at midnight UTC. It now follows the station's own zone, a run after midnight belongs to the night before, and all tests pass.")
	f.duration(48_210)
}

func (f *claudeFile) chartTurn() {
	f.after(95 * time.Second)
	f.user(list{
		o("type", "text", "text", "Lovely. And the bloom chart on the barn display looks like this now. It used to start at zero?"),
		o("type", "image", "source", o("type", "base64", "media_type", "image/png", "data", chart(3))),
	})
	f.message(11, 14104, 2210, 301)
	f.thinks("The curve in the picture begins above the baseline. Either the axis was cut or the first readings are missing. " +
		"There are two places that could do it; a helper can survey the drawing code while I ask what Mira wants to see.")
	f.says("The curve starts above the baseline. I will have a helper survey the drawing code while I check one thing with you.")
	f.calls("toolu_01Survey", "Task", o("description", "Survey the chart code", "subagent_type", "Explore",
		"prompt", "Find where the bloom chart chooses its vertical axis. Report the file, the function and which data it drops."))
	f.result("toolu_01Survey", list{o("type", "text", "text", "chart/axis.go: Fit() starts the axis at the smallest value it sees. Nothing is dropped.")},
		o("status", "completed", "agentId", claudeAgent, "totalDurationMs", 21400, "totalTokens", 18211, "totalToolUseCount", 2))
	question := "Should the bloom axis always start at zero, or only for the barn display?"
	questions := list{o("question", question, "header", "Axis", "multiSelect", false, "options", list{
		o("label", "Always", "description", "Every chart starts at zero"),
		o("label", "Barn display", "description", "Only the big one"),
	})}
	f.calls("toolu_01AskAxis", "AskUserQuestion", o("questions", questions))
	f.after(40 * time.Second)
	f.result("toolu_01AskAxis", "User has answered your questions: \""+question+"\"=\"Always\".",
		o("questions", questions, "answers", o(question, "Always")))
	f.message(8, 16314, 820, 190)
	f.calls("toolu_01FixAxis", "Edit", o("file_path", orchardDir+"/chart/axis.go", "old_string", "lo := minimum(values)", "new_string", "lo := min(0, minimum(values))"))
	f.result("toolu_01FixAxis", "The file "+orchardDir+"/chart/axis.go has been updated.", nil)
	f.calls("toolu_01Preview", "mcp__barn__screenshot", o("chart", "bloom", "width", 96))
	f.result("toolu_01Preview", list{
		o("type", "text", "text", "Rendered bloom chart, 96x56"),
		o("type", "image", "source", o("type", "base64", "media_type", "image/png", "data", chart(12))),
	}, nil)
	f.message(6, 17134, 1140, 74)
	f.block(o("type", "text", "text", "Every chart starts at zero now. The picture shows the new one: the curve lifts off the baseline in the third week of March. 🌸"), "end_turn")
	f.duration(112_460)
}

func (f *claudeFile) exportTurn() {
	f.after(4 * time.Minute)
	f.user("Please export this spring's readings so I can compare the rows, and tell me which row bloomed first.")
	f.message(10, 18274, 400, 141)
	f.calls("toolu_01Export", "mcp__stations__export_readings", o("from", "2026-03-20", "to", "2026-04-03", "format", "csv"))
	f.result("toolu_01Export", list{o("type", "text", "text", readings())}, nil)
	f.chained("system", o("subtype", "api_error", "level", "error", "error", o("status", 529, "error", o("type", "error",
		"error", o("type", "overloaded_error", "message", "Overloaded"))), "retryInMs", 1200, "retryAttempt", 1, "maxRetries", 10))
	f.message(6, 18674, 148_200, 133)
	f.says("Row 06 was first: it reached five percent bloom in the small hours of 22 March, thirty hours before its neighbours. That is the row along the south wall, so it fits.")
	f.duration(19_870)
}

// compacted ends the story: the context was full, and the summary carries on.
func (f *claudeFile) compacted() {
	f.after(30 * time.Second)
	before := f.parent
	f.parent = nil
	f.chained("system", o("subtype", "compact_boundary", "content", "Conversation compacted", "isMeta", false, "level", "info"),
		"logicalParentUuid", before, "compactMetadata", o("trigger", "auto", "preTokens", 166_913))
	f.user("This session is being continued from an earlier conversation that ran out of context. Summary: the frost warning now follows the "+
		"station's own zone; every chart starts at zero; row 06, along the south wall, bloomed first this spring. Nothing is left open.",
		"isVisibleInTranscriptOnly", true, "isCompactSummary", true)
	f.after(time.Minute)
	f.user("Thank you! One last thing: is the working tree clean?")
	f.message(12, 0, 3980, 60)
	f.calls("toolu_01Status", "Bash", o("command", "git status --short", "description", "Show changed files"))
	out := " M chart/axis.go\n M forecast/night.go\n M forecast/night_test.go"
	f.result("toolu_01Status", out, bash(out))
	f.message(5, 3992, 130, 48)
	f.block(o("type", "text", "text", "Three changed files, none staged: chart/axis.go, forecast/night.go and its test. Shall I commit them?"), "end_turn")
	f.duration(7_340)
}

// claudeSubagent is the file of the helper that surveyed the chart code.
func claudeSubagent() []byte {
	f := newClaude(claudeAgent, time.Date(2026, 11, 20, 9, 4, 42, 0, time.UTC))
	f.user("Find where the bloom chart chooses its vertical axis. Report the file, the function and which data it drops.")
	f.message(4, 0, 9120, 88)
	f.says("I will search for the axis first.")
	f.calls("toolu_01SubGrep", "Grep", o("pattern", "func .*[Aa]xis", "path", "chart", "output_mode", "content"))
	f.result("toolu_01SubGrep", "chart/axis.go:12:func Fit(values []float64) Axis {\nchart/axis.go:31:func (a Axis) Ticks() []float64 {",
		o("mode", "content", "numFiles", 0, "filenames", list{}, "content", "", "numLines", 2))
	f.calls("toolu_01SubRead", "Read", o("file_path", orchardDir+"/chart/axis.go", "limit", 30))
	f.result("toolu_01SubRead", numbered(12, "func Fit(values []float64) Axis {\n\tlo := minimum(values)\n\thi := maximum(values)\n"), nil)
	f.message(3, 9124, 540, 121)
	f.block(o("type", "text", "text", "chart/axis.go: Fit() starts the axis at the smallest value it sees. Nothing is dropped."), "end_turn")
	return f.out.Bytes()
}

func claudeMeta() []byte {
	return append(encode(o("agentType", "Explore", "description", "Survey the chart code", "toolUseId", "toolu_01Survey")), '\n')
}
