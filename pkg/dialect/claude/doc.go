// Package claude reads the lines of Claude Code transcripts: projects/<key>/<session>.jsonl and the files of their
// subagents (SPEC X6). Every line is placed after the one before it.
//
// What a line becomes, block by block:
//
//	assistant  text                          text
//	           thinking                      thinking; one without text (encrypted only) nothing
//	           tool_use, server_tool_use,
//	           mcp_tool_use                  tool_call; AskUserQuestion and ExitPlanMode pending_prompt after it
//	           *_tool_result                 tool_result
//	           stop_reason end_turn or
//	           stop_sequence, after a text   turn_end
//	user       tool_result                   tool_result; of an open prompt pending_prompt_resolved after it
//	           text, image                   one user post; a picture is "[image]", and a part {"type":"image","data","mimeType"}
//	                                         of the content behind it, as that of a tool's result
//	           "[Request interrupted by …"   status interrupted, turn_end
//	           isCompactSummary              no item: Step.Compact
//	           <command-name> with <command-args>   user post: /name and the arguments
//	           isMeta, other commands and their output (<local-command-stdout>, <bash-input>, …)   no item
//	system     turn_duration                 turn_end
//	           compact_boundary              status compacting_context
//	           api_error                     status api_error
//	           another subtype               status of that name, unless isMeta or a local command
//	attachment queued_command                user post: a prompt given while the agent worked
//	summary, custom-title, ai-title          no item: Session.Title
//	progress, queue-operation, file-history-*, mode, tag, pr-link, … no item
//	anything else                            no item, Known is false (SPEC X4)
//
// A turn ends once. A final stop_reason ends it, with the duration measured from the prompt; a turn_duration after that
// says nothing new and gives no item. Versions that leave stop_reason null end their turns with turn_duration alone;
// the oldest write neither: there the next prompt is the evidence, and turn_end stands before its post, with the time
// of the agent's last line. What a person says beside a tool's result steers the turn. A stop hook that sends the agent
// on begins another turn. Version 1 of the mapping had no turn_end before a prompt, and no commands, version 2 no pictures.
//
// Usage is counted once per message.id, the greatest of the figures its lines repeat: input_tokens is input +
// cache_read + cache_creation, input_tokens_cached is cache_read.
//
// A result's output is its content, what the model saw; where toolUseResult holds more of the command's output (stdout
// and stderr), that. Sidechain lines inside the main file (isSidechain without agentId, old versions) give their items
// too, but end no turn, and the prompt the agent wrote for its helper is a status subagent_prompt.
package claude
