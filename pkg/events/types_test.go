package events_test

import (
	"testing"

	"spool/internal/must"
	"spool/pkg/events"
)

func TestMeantType(t *testing.T) {
	for name, want := range map[string]string{
		"tool_reslt": "tool_result", "tool_results": "tool_result", "Tool_Call": "tool_call", "toolcall": "tool_call", "tol-call": "tool_call",
		"mesage": "message", "TEXT": "text", "thinkin": "thinking", "turn_ends": "turn_end", "pending_prompts": "pending_prompt",
		"test": "", "tests": "", "deploy": "", "result": "", "assistant": "", "": "",
	} {
		must.Same(t, events.MeantType(name), want, name+" = %q, want %q")
	}
	for _, own := range events.OwnTypes {
		must.Same(t, events.MeantType(own), "", own+" = %q, want %q")
	}
}
