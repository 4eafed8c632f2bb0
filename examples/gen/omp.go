package main

import (
	"fmt"
	"strings"
	"time"
)

const ompSession = "019aa0d2-1780-7f03-b6c1-2e94d0a7f358"

// ompFile writes entries of a version-3 session: a tree by id and parentId.
type ompFile struct {
	file
	leaf  any
	model string
}

// entry appends an entry after the leaf and moves the leaf to it.
func (f *ompFile) entry(typ string, members ...any) string {
	f.n++
	id := digest("omp", f.n)[:8]
	line := o("type", typ, "id", id, "parentId", f.leaf, "timestamp", f.stamp())
	f.line(append(line, members...))
	f.leaf = id
	return id
}

func (f *ompFile) message(members ...any) string {
	f.after(1700 * time.Millisecond)
	return f.entry("message", "message", append(o(members...), "timestamp", f.now.UnixMilli()-900))
}

func (f *ompFile) user(content any) string {
	f.after(25 * time.Second)
	return f.message("role", "user", "content", content)
}

// assistant writes an answer; without a call it is the turn's last.
func (f *ompFile) assistant(input, cached, output int, blocks ...any) string {
	stop := "stop"
	for _, b := range blocks {
		if b.(object)[1] == "toolCall" {
			stop = "toolUse"
		}
	}
	return f.message("role", "assistant", "content", list(blocks), "api", "anthropic-messages", "provider", "anthropic", "model", f.model,
		"usage", o("input", input, "output", output, "cacheRead", cached, "cacheWrite", 640, "totalTokens", input+output+cached+640,
			"cost", o("input", 0.0003, "output", 0.0021, "cacheRead", 0.0004, "cacheWrite", 0.0024, "total", 0.0052)), "stopReason", stop)
}

func text(s string) object { return o("type", "text", "text", s) }

func thinking(s string) object {
	return o("type", "thinking", "thinking", s, "thinkingSignature", opaque(120, s))
}

func toolCall(id, name string, arguments object) object {
	return o("type", "toolCall", "id", id, "name", name, "arguments", arguments)
}

func (f *ompFile) result(id, tool string, isError bool, content ...any) {
	f.message("role", "toolResult", "toolCallId", id, "toolName", tool, "content", list(content), "details", o(), "isError", isError)
}

// ompSessionFile is a session: planting a new row, with a branch that was tried and left.
func ompSessionFile() []byte {
	f := &ompFile{model: "claude-sonnet-4-6"}
	f.now = time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)
	f.line(o("type", "session", "version", 3, "id", ompSession, "timestamp", f.stamp(), "cwd", orchardDir, "title", "Plan the new row by the south wall"))
	f.entry("model_change", "model", "anthropic/claude-sonnet-4-6")
	f.entry("thinking_level_change", "thinkingLevel", "medium")
	fork := f.plan()
	f.diary()
	f.branch(fork)
	f.afterCompaction()
	return f.out.Bytes()
}

const wallNotes = "# South wall\n\nTwelve metres are free, with sun from nine to five.\nSoil: loam over chalk, pH 7.4.\nRow 06 stands next to it, in bloom thirty hours before the others.\n"

// plan returns the entry at which the branch will leave.
func (f *ompFile) plan() string {
	f.user(list{text("I want to plant a new row along the south wall. Which variety would suit it? Our notes are in notes/.")})
	f.assistant(1210, 0, 164,
		thinking("South wall means warmth and early bloom, so frost at bloom is the risk. A late variety would spread it. First see what the notes say about that wall."),
		text("The south wall is warm, so early bloom and frost are the risk. Let me see what the notes say."),
		toolCall("call_ls", "bash", o("command", "ls notes && wc -c notes/*")),
		toolCall("call_wall", "read", o("path", "notes/south-wall.md")))
	f.result("call_ls", "bash", false, text(fmt.Sprintf("diary.txt\nsouth-wall.md\n%8d notes/diary.txt\n%8d notes/south-wall.md\n%8d total",
		len(journal()), len(wallNotes), len(journal())+len(wallNotes))))
	f.result("call_wall", "read", false, text(wallNotes))
	answer := f.assistant(420, 1850, 118, text("Two good candidates: **Conference** pear, which likes walls and lime, or **Opal** plum, which blooms late. The diary could tell how both did in cold springs."))
	f.entry("label", "targetId", answer, "label", "two candidates")
	return answer
}

func (f *ompFile) diary() {
	f.user(list{text("Let us look at the diary for the plums, then.")})
	f.assistant(380, 2410, 72, toolCall("call_diary", "read", o("path", "notes/diary.txt")))
	f.result("call_diary", "read", false, text(journal()))
	f.assistant(150, 2900, 96, toolCall("call_count", "bash", o("command", "grep -c 'Opal.*scab' notes/diary.txt; false", "timeout", 30)))
	f.result("call_count", "bash", true, text(fmt.Sprintf("%d\n\nCommand exited with code 1", opalScab())))
	f.assistant(90, 3300, 143, text("Opal shows up often with scab on the windward side, and the wall shelters from exactly that. It would do well here, but the soil is too chalky for plums: they want pH 7 at most."))
	f.entry("custom", "customType", "garden-planner", "data", o("candidate", "Opal", "score", 0.62))
	f.entry("custom_message", "customType", "garden-planner", "content", "Planner: Opal scores 0.62 for this wall.", "display", true, "details", o("rules", 4))
}

// opalScab counts what the session's grep counts.
func opalScab() (n int) {
	for line := range strings.Lines(journal()) {
		if at := strings.Index(line, "Opal"); at >= 0 && strings.Contains(line[at:], "scab") {
			n++
		}
	}
	return n
}

// branch goes back to the two candidates and takes the other one.
func (f *ompFile) branch(fork string) {
	left := f.leaf
	f.leaf = fork
	f.entry("branch_summary", "fromId", left, "summary", "Looked into Opal plum: resistant enough behind the wall, but the soil is too chalky (pH 7.4).", "details", o("reason", "soil"))
	f.user(list{text("Go with the pear instead. This is the wall this morning:"), o("type", "image", "data", chart(21), "mimeType", "image/png")})
	f.model = "claude-opus-4-8"
	f.entry("model_change", "model", "anthropic/"+f.model, "role", "default")
	f.assistant(910, 1870, 240,
		thinking("Pear on lime: quince rootstock gets chlorosis, so pear seedling or BA29. Spacing for an espalier is about three and a half metres; twelve metres give three trees."),
		text("Conference it is. On chalk I would take it on BA29 rather than plain quince. Twelve metres hold three espaliers. I will write it down."),
		toolCall("call_plan", "write", o("path", "notes/row-25.md", "content", "# Row 25\n\n3 x Conference on BA29, espalier, 3.5 m apart.\nPlant before 15 December.\n")))
	f.result("call_plan", "write", false, text("Successfully wrote 83 bytes to notes/row-25.md"))
	f.assistant(60, 3400, 52, text("Done: three Conference pears on BA29, planted before mid-December. 🍐"))
	f.message("role", "bashExecution", "command", "git add notes && git commit -qm 'Plan row 25' && git log --oneline -1",
		"output", "4c1f0aa Plan row 25\n", "exitCode", 0, "cancelled", false, "truncated", false)
}

func (f *ompFile) afterCompaction() {
	f.after(time.Minute)
	kept := f.leaf
	f.entry("compaction", "summary", "Row 25 by the south wall gets three Conference pears on BA29 as espaliers, 3.5 m apart, planted before 15 December; "+
		"see notes/row-25.md. Opal plum was ruled out because the soil is too chalky.", "shortSummary", "Row 25: three pears", "firstKeptEntryId", kept,
		"tokensBefore", 41_800, "tokensAfter", 2_300, "details", o("readFiles", list{"notes/diary.txt", "notes/south-wall.md"}, "modifiedFiles", list{"notes/row-25.md"}), "fromExtension", false)
	f.user("How many litres of compost for three trees?")
	f.assistant(2410, 0, 61, text("Forty litres a tree is generous, so 120 in all; mix it with the loam rather than filling the hole with it."))
	f.entry("mode_change", "mode", "none")
}
