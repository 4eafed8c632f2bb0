// Package omp reads the lines of omp session files, versions 1 to 3 and the types newer programs add (seed 002, SPEC S).
//
// An entry goes after its parentId; one without the member, and any of version 1, goes after the line before it; null makes a new
// root, except for the first entry of the tree, which goes after the header. In a session of version 1 an entry without an
// id gets that of its place in the file, as sessions.Migration gives it (SPEC S5).
//
//	session, title               no item: Session facts
//	message  user                user post; a picture is "[image]", and a part {"type":"image","data","mimeType"} of
//	                             the content behind it, as that of a tool's result; version 1 had no such parts
//	         assistant           by block: text, thinking, toolCall → tool_call
//	           stopReason        stop, length, end_turn, …, without a call: turn_end; aborted, error: status, turn_end
//	         toolResult          tool_result
//	         bashExecution,
//	         pythonExecution     what the user ran: tool_call and tool_result under the entry's id
//	         custom, hookMessage status custom_message if display, else no item
//	         branchSummary, compactionSummary, fileMention, developer   no item
//	compaction                   status compacting_context; Step.Compact, Step.Kept
//	branch_summary               status branch_summary
//	custom_message               status custom_message if display; one of acp_permission whose details have a prompt is that, or how it ended
//	model_change, mode_change    status of that name; Session.Model
//	title_change                 no item: Session.Title
//	thinking_level_change, custom, label, ttsr_injection, session_init, model_usage, service_tier_change,
//	credential_pin, reset_boundary   no item: state of the program, nothing a consumer shows
//	anything else                no item, Known is false (SPEC X4)
//
// A turn reaches from the user's prompt to the answer without a call; a prompt in between steers it and begins no other.
// Its usage is the sum over its assistant messages, each of which is told once: input_tokens is input + cacheRead +
// cacheWrite, input_tokens_cached is cacheRead. A failed attempt ends the turn; further failures only add their status,
// and a later success ends the turn again.
package omp
