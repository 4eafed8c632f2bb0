// Package gemini reads the lines of session files of Gemini CLI, and of Qwen Code, which has Gemini's parts in a chain of its own.
//
// Gemini CLI, dialect "gemini":
//
//	the header (sessionId, projectHash)   no item: Session facts
//	$set                         no item: what is known of the file; Session.Cwd of the context in messages, and Step.Compact of others,
//	                             which stand for all before
//	$rewindTo                    status rewound, Place Before
//	user    text                 user post, but for the context that the program gives
//	        functionResponse     tool_result
//	gemini  thoughts             thinking, by thought
//	        content              text
//	        toolCalls            tool_call, and tool_result where the call has its result
//	        tokens               the turn's usage; content without a call: turn_end
//	info, warning, error         status of that name
//
// A message is written again, whole, when its calls have ended: what was posted of it is not posted again.
//
// Qwen Code, dialect "qwen":
//
//	user                         user post
//	assistant                    by part: thinking (thought), text, functionCall → tool_call; text without a call: turn_end
//	tool_result                  tool_result
//	system  chat_compression     status compacting_context, Step.Compact
//	        rewind               status rewound
//	        anything else        no item: state of the program
//
// A line has the Place that its parentUuid says.
//
// Any other type has no item, and Known is false (SPEC X4).
package gemini
