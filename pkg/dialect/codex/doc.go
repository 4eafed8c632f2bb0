// Package codex reads the lines of Codex rollouts, sessions/Y/M/D/rollout-*.jsonl (SPEC X7): an envelope {timestamp, type,
// payload} each. Every line is placed after the one before it, but for thread_rolled_back, which goes back num_turns user
// turns. The response items are canonical; the events that repeat them add nothing.
//
//	session_meta                     no item: Session facts
//	turn_context                     no item: Session.Model, Session.Cwd
//	response_item
//	  message  user                  user post, without injected parts (<environment_context>, AGENTS.md, skills, …); a picture is
//	                                 "[image]", and a part {"type":"image_url","image_url"} of the content behind it, as that of a
//	                                 result; what an MCP server gives is {"type":"image","data","mimeType"}
//	           assistant             text
//	           developer, system     no item
//	  reasoning                      thinking: the summary, else the raw content; encrypted only: no item
//	  function_call, custom_tool_call, local_shell_call, tool_search_call, web_search_call   tool_call
//	  *_output                       tool_result
//	  others                         no item
//	event_msg
//	  task_started                   status task_started
//	  task_complete                  turn_end; with an error status error before it
//	  turn_aborted                   status turn_aborted, turn_end
//	  thread_rolled_back             status thread_rolled_back, Place UserTurns
//	  thread_settings_applied, thread_goal_updated   status of that name
//	  item_completed, mcp_tool_call_end, web_search_end, patch_apply_end   of a call: tool_result, see below
//	  token_count                    no item: usage
//	  user_message, agent_message, agent_reasoning, others   no item
//	compacted                        status compacting_context, Step.Compact; replacement_history is never items
//	token_usage_record               no item: usage
//	world_state, inter_agent_communication, …   no item
//	anything else                    no item, Known is false (SPEC X4)
//
// One result per call: of the lines that tell the end of a call, the first is the result and the others are not. Whether
// it failed is taken from what that line says (exit_code, also inside JSON output, "Process exited with code N", success,
// isError, status). A later line that tells of a failure the result did not is a status tool_failed with
// metadata.tool.invocation_id. A command that completes without a call before it (the user ran
// it) is a tool_call and its result.
//
// A turn is what task_complete or turn_aborted ends, once; where neither came, task_started of the next one is the evidence,
// or in rollouts without that the next prompt, and the turn ended with the agent's last sign of work. What is counted behind
// an end is told with the next one. Its usage is the sum of its token_usage_record lines, or else
// of token_count.last_token_usage, a repeated total counted once; input_tokens holds the cached ones already.
//
// Version 1 of the mapping ended no turn without a line that says so, version 2 had no pictures.
package codex
