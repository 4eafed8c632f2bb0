package httpapi

import (
	"fmt"
	"net/http"

	"spool/internal/access"
)

// route is a row of the API: where it is, what it needs, what it is to a reader of the OpenAPI document, and who answers.
type route struct {
	method, path string
	need         access.Scope
	in           lane
	about        string  // one line
	query        []param // and header fields
	takes        []body  // of the request; none: no body
	gives        []body  // of a success
	status       int     // of a success; 0 = 200
	also         []int   // statuses of refusals beside those that every route has
	paced        bool    // it takes of the quotas by itself, for each entry
	do           func(a *api, w http.ResponseWriter, r *http.Request) error
}

// lane is what of the process a request takes while it lasts.
type lane int

const (
	free      lane = iota
	storing        // an entry, or a change
	piping         // a stream of lines
	uploading      // a piece of an object
	reading        // a page or a piece of an object
	sending        // a streaming output
	following      // an event stream, or a wait for what is to be applied
	waiting        // of no route: meanwhile a request of another lane waits for what is to be applied
	lanes
)

// param is a parameter of the query, or with header of the header. Its type is string, integer or boolean (given, or not).
type param struct {
	name, kind, about string
	header            bool
}

// body is a form that a body can have: its media type, and the schema of schemas.json; "" for bytes. Of an event stream, and of
// lines, it is the schema of one.
type body struct{ media, schema string }

const (
	typeJSON   = "application/json"
	typeNDJSON = "application/x-ndjson"
	typeSSE    = "text/event-stream"
	typeBytes  = "application/octet-stream"
)

const (
	sessionPath = "/v1/sessions/{session}"
	threadPath  = sessionPath + "/threads/{thread}"
)

func object(schema string) []body { return []body{{typeJSON, schema}} }

// either is a list as one object, or as a line for each.
func either(whole, one string) []body { return []body{{typeJSON, whole}, {typeNDJSON, one}} }

func sseOf(schema string) []body { return []body{{typeSSE, schema}} }

var (
	pLimit   = limitOf(mostListed)
	pAfter   = param{name: "after", kind: "string", about: `the "next" of the page before`}
	pSession = param{name: "session", kind: "string", about: "of this session only"}
	pUser    = param{name: "user", kind: "string", about: "user_id stamped on the items, unless the token has a name: then that is"}
	pRange   = param{name: "Range", kind: "string", about: "bytes=FROM-TO", header: true}
	pMatch   = param{name: "If-None-Match", kind: "string", about: "the ETag of what is there", header: true}
	pResume  = param{name: "Last-Event-ID", kind: "string", about: "go on behind that event", header: true}

	pNotUser = param{name: "not_user", kind: "string",
		about: "without the items of this user_id: who posts and reads would read itself"}

	pItems = []param{
		pSession, {name: "cwd", kind: "string", about: "of sessions in this working directory"},
		{name: "since", kind: "string", about: "not before this time or date, or so long ago"},
		{name: "until", kind: "string", about: "before this time or date, or so long ago"},
	}

	pIdentity = []param{
		{name: headerProducer, kind: "string", about: "who sends; with it a request can be repeated and adds nothing", header: true},
		{name: headerSeq, kind: "integer", about: "sequence of the first line; it grows from request to request", header: true},
		{name: headerEpoch, kind: "integer", about: "incarnation of the producer; fences the ones before", header: true},
	}
	pLines = []param{
		{name: "offset", kind: "integer", about: "first line, from 1"},
		{name: "limit", kind: "integer", about: "lines"},
	}
)

// limitOf is the parameter that limit reads.
func limitOf(most int) param {
	return param{name: "limit", kind: "integer", about: fmt.Sprintf("at most so many, 1 to %d", most)}
}

// open are the routes of every process.
var open = []route{
	{method: "GET", path: "/healthz", about: "The process runs.", gives: object("ok"), do: (*api).alive},
	{method: "GET", path: "/readyz", about: "Entries can be stored: streams are there, persisters keep up.",
		gives: object("ok"), also: []int{503}, do: (*api).ready},
	{method: "GET", path: "/v1/openapi.json", about: "This document.", gives: object("openapi"), do: (*api).openapi},
	{
		method: "POST", path: threadPath + "/entries", need: access.Write, in: storing,
		about: "Append one entry, or an entry a line; the answer to lines has a line for each.",
		query: append([]param{{name: "dialect", kind: "string",
			about: "what the entries are: claude, codex, copilot, gemini, omp, opencode, qwen, item, step, raw"}, pUser}, pIdentity...),
		takes: []body{{typeJSON, "entry"}, {typeNDJSON, "entry"}}, gives: []body{{typeJSON, "stored"}, {typeNDJSON, "line"}}, status: 202,
		also: []int{413, 415, 503}, paced: true, do: (*api).entries,
	},
	{
		method: "POST", path: "/v1/events", need: access.Write, in: storing, about: "Append entries of any threads, an envelope a line.",
		query: append([]param{pUser}, pIdentity...), takes: []body{{typeNDJSON, "envelope"}}, gives: []body{{typeNDJSON, "line"}},
		also: []int{413, 415, 503}, paced: true, do: (*api).events,
	},
}

// pSessions choose sessions.
var pSessions = []param{
	{name: "cwd", kind: "string", about: "of this working directory"},
	{name: "q", kind: "string", about: "words of title, prompt, id or directory"},
	{name: "unanswered", kind: "boolean", about: "also those that no agent has answered in"},
}

// served are the routes of a process that reads.
var served = []route{
	{
		method: "GET", path: "/v1/sessions", need: access.Read, in: reading, about: "Sessions, newest first.",
		query: append([]param{{name: "state", kind: "string", about: "waiting, running, failed, idle or done"}, pLimit, pAfter}, pSessions...),
		gives: either("sessions", "session"), do: (*api).sessions,
	},
	{
		method: "GET", path: "/v1/states", need: access.Read, in: reading, about: "How many sessions are in each state.",
		query: pSessions, gives: object("states"), do: (*api).states,
	},
	{method: "GET", path: sessionPath, need: access.Read, in: reading, about: "A session and its threads.",
		gives: object("session"), do: (*api).session},
	{method: "GET", path: sessionPath + "/graph", need: access.Read, in: reading,
		about: "How its threads come from each other.", gives: either("graph", "graph_node"), do: (*api).graph},
	{
		method: "GET", path: "/v1/threads", need: access.Read, in: reading,
		about: "Threads of all sessions, by status and by the date of their end.",
		query: []param{
			pSession, {name: "status", kind: "string", about: "pending, active, completed or failed"},
			{name: "ended_from", kind: "string", about: "that ended on this UTC date, yyyy-mm-dd, or later"},
			{name: "ended_to", kind: "string", about: "that ended on this UTC date or before"}, pLimit, pAfter,
		},
		gives: either("threads", "thread"), do: (*api).findThreads,
	},
	{method: "GET", path: sessionPath + "/threads", need: access.Read, in: reading, about: "Its threads.",
		gives: either("threads", "thread"), do: (*api).threads},
	{method: "GET", path: threadPath, need: access.Read, in: reading, about: "A thread.", gives: object("thread"),
		do: onThread((*api).oneThread)},
	{
		method: "GET", path: threadPath + "/applied", need: access.Read, in: following,
		about: "Whether the thread has taken what a producer published: waited for, five seconds at most.",
		query: []param{
			{name: "producer", kind: "string", about: "who published, as in the header " + headerProducer},
			{name: "epoch", kind: "integer", about: "its incarnation"},
			{name: "first", kind: "integer", about: "the first sequence that is meant; seq unless given"},
			{name: "seq", kind: "integer", about: "the last one, which got a 2xx"},
		},
		gives: object("ok"), also: []int{409, 503}, do: onThread((*api).applied),
	},
	{
		method: "GET", path: threadPath + "/items", need: access.Read, in: reading,
		about: "Items of a thread, from its nodes: also those that SPOOL_ITEMS has forgotten.",
		query: []param{
			{name: "from", kind: "integer", about: "from this number on"},
			{name: "before", kind: "integer", about: "the last ones before this number"},
			{name: "last", kind: "integer", about: limitOf(mostItems).about + ", the last ones"}, limitOf(mostItems),
		},
		gives: either("items", "item"), do: onThread((*api).items),
	},
	{
		method: "GET", path: threadPath + "/items/{n}", need: access.Read, in: reading, about: "One item.",
		query: []param{{name: "full", kind: "boolean", about: "as it was before any cut"}}, gives: object("item"),
		also: []int{413}, do: onThread((*api).item),
	},
	{
		method: "GET", path: threadPath + "/search", need: access.Read, in: reading, about: "Items that hold a text, or are of a type, newest first.",
		query: []param{
			{name: "q", kind: "string", about: "the text; letter case does not matter"},
			{name: "type", kind: "string", about: `metadata.type, or message; several with commas between. ` +
				fmt.Sprintf("Looks at %d items: follow \"next\"", mostOfType)},
			{name: "detail", kind: "string", about: "with type: a tool's name; ok or error"},
			{name: "before", kind: "integer", about: `only before this number: the "next" of the page before`}, limitOf(mostMatches),
		},
		gives: either("matches", "match"), do: onThread((*api).search),
	},
	{
		method: "GET", path: threadPath + "/context", need: access.Read, in: reading,
		about: "What the model is sent at the leaf, or of a workflow its task and steps.",
		query: []param{{name: "leaf", kind: "string", about: "at this entry instead"}}, gives: object("context"),
		also: []int{409}, do: onThread((*api).context),
	},
	{
		method: "GET", path: threadPath + "/tree", need: access.Read, in: reading,
		about: "Its entries with their parents and labels, and which one is the leaf.",
		gives: either("tree", "tree_entry"), do: onThread((*api).tree),
	},
	{
		method: "GET", path: threadPath + "/logs/thread.log", need: access.Read, in: reading,
		about: "The items as they were before any cut, a line each.",
		query: pLines, gives: []body{{typeNDJSON, "full_item"}}, also: []int{416}, do: onThread((*api).log),
	},
	{
		method: "GET", path: threadPath + "/page", need: access.Read, in: reading,
		about: "The thread as one file to read, to be saved.",
		query: []param{{name: "as", kind: "string", about: "html, unless given, or md"}},
		gives: []body{{"text/html", ""}, {"text/markdown", ""}}, do: onThread((*api).page),
	},
	{
		method: "GET", path: "/v1/nodes/{hash}", need: access.Read, in: reading, about: "Where a state is: a link that survives forks.",
		query: []param{{name: "session", kind: "string", about: "look here first"},
			{name: "thread", kind: "string", about: "look here first; main unless given"}},
		gives: object("place"), do: (*api).node,
	},
	{
		method: "GET", path: threadPath + "/live", need: access.Read, in: following, about: "Follow a thread: item, live, open, head, reset.",
		query: []param{pResume, {name: "from", kind: "integer", about: "begin with this item, not with the next one"},
			{name: "whole", kind: "boolean", about: "open outputs from their first byte"}, pNotUser},
		gives: sseOf("thread_event"), do: onThread((*api).streamThread),
	},
	{
		method: "GET", path: "/v1/live", need: access.Read, in: following, about: "Follow the items of a session or of all.",
		query: []param{
			pSession, {name: "thread", kind: "string", about: "of threads of this name"},
			{name: "type", kind: "string", about: "metadata.type, or message; what looks like a misspelt one of Spool's own is " +
				"refused while no item has it"},
			{name: "detail", kind: "string", about: "with type: a tool's name; ok or error"},
			{name: "since", kind: "string", about: "a time, a duration, or all"},
			pNotUser,
			pResume,
		},
		gives: sseOf("item"), do: (*api).streamItems,
	},
	{
		method: "GET", path: "/v1/heads", need: access.Read, in: following, about: "Follow the heads of active threads.",
		query: []param{pSession, {name: "current", kind: "boolean", about: "begin with where they are"}, pResume},
		gives: sseOf("thread"), do: (*api).streamHeads,
	},
	{
		method: "POST", path: threadPath + "/fork", need: access.Write, in: storing,
		about: "Start a thread at a point of this one.", takes: object("fork"),
		gives: object("thread"), status: 201, also: []int{409, 415}, do: takingOnThread((*api).fork),
	},
	{
		method: "POST", path: threadPath + "/compact", need: access.Write, in: storing,
		about: "Make a summary stand for all so far.", takes: object("compact"),
		gives: object("thread"), also: []int{409, 415}, do: changes(http.StatusOK, (*api).compact),
	},
	{
		method: "POST", path: threadPath + "/end", need: access.Write, in: storing, about: "Complete the thread.",
		takes: object("end"), gives: object("thread"),
		also: []int{409, 415}, do: changes(http.StatusOK, (*api).endThread),
	},
	{
		method: "POST", path: threadPath + "/rename", need: access.Write, in: storing,
		about: "Give the thread another name.", takes: object("rename"),
		gives: object("thread"), also: []int{409, 415}, do: changes(http.StatusOK, (*api).rename),
	},
	{
		method: "POST", path: threadPath + "/branch", need: access.Write, in: storing,
		about: "Move the leaf to an entry; without one, away from all. A summary is appended there.", takes: object("branch"),
		gives: object("thread"), also: []int{409, 415}, do: changes(http.StatusOK, (*api).branch),
	},
	{
		method: "POST", path: threadPath + "/label", need: access.Write, in: storing,
		about: "Name an entry; without a label its name goes.", takes: object("label"),
		gives: object("labelled"), also: []int{409, 415}, do: takingOnThread((*api).label),
	},
	{
		method: "POST", path: threadPath + "/append", need: access.Write, in: storing,
		about: "Append an entry to a session of omp entries, after the one that is taken for the leaf.", query: []param{pUser},
		takes: object("append"), gives: object("appended"), status: 201, also: []int{409, 415}, do: takingOnThread((*api).append),
	},
	{method: "GET", path: threadPath + "/outputs", need: access.Read, in: reading, about: "Outputs that are open.",
		gives: either("outputs", "open_output"), do: onThread((*api).openOutputs)},
	{
		method: "POST", path: threadPath + "/outputs", need: access.Write, in: sending,
		about: "Stream what a tool prints: the body, as it prints it.",
		query: []param{
			{name: "tool", kind: "string", about: "name of the tool"},
			{name: "id", kind: "string", about: "names the output in its session"},
			{name: "invocation_id", kind: "string", about: "id that call and result share"},
			{name: "input", kind: "string", about: "JSON: also post the call"},
			{name: "cwd", kind: "string", about: "working directory"},
			{name: "agent", kind: "string", about: "for the artifact"},
			{name: "run", kind: "string", about: "run of the session it belongs to"}, pUser,
			{name: "head", kind: "integer", about: "bytes of the beginning that the result shows"},
			{name: "columns", kind: "integer", about: "longest line that the result shows, in bytes"},
			{name: "show", kind: "integer", about: "bytes that the result shows, at most 51,200"},
			{name: "lease_ms", kind: "integer", about: "how long it may be silent, at most 604,800,000"},
			{name: "keep", kind: "boolean", about: "an artifact of all of it, also when the result shows it whole"},
			{name: headerExit, kind: "integer", about: "exit code; also as a trailer", header: true},
			{name: headerError, kind: "string", about: "true: the tool failed; also as a trailer", header: true},
		},
		takes: []body{{typeBytes, ""}}, gives: object("output"), status: 201, also: []int{503}, do: onThread((*api).putOutput),
	},
	{
		method: "GET", path: "/v1/prompts", need: access.Read, in: reading, about: "Prompts that wait for an answer.", query: []param{pSession},
		gives: either("prompts", "prompt"), do: (*api).prompts,
	},
	{method: "GET", path: threadPath + "/prompts/{id}", need: access.Read, in: reading, about: "One prompt.",
		gives: object("prompt"), do: (*api).prompt},
	{
		method: "POST", path: threadPath + "/prompts/{id}/answer", need: access.Answer, in: storing,
		about: "Answer a prompt; the first answer counts.", takes: object("answer"),
		gives: object("answered"), also: []int{409, 415}, do: (*api).answerPrompt,
	},
	{method: "GET", path: "/v1/runs", need: access.Read, in: reading, about: "Runs of agents.", query: []param{pSession},
		gives: either("runs", "run"), do: (*api).runs},
	{
		method: "GET", path: "/v1/history", need: access.Read, in: reading, about: "What people asked for, newest first.",
		query: []param{{name: "q", kind: "string", about: "words"}, pSession,
			{name: "cwd", kind: "string", about: "of this working directory"}, limitOf(mostFound)},
		gives: either("history", "history_prompt"), do: (*api).history,
	},
	{
		method: "GET", path: "/v1/search", need: access.Read, in: reading, about: "Items of all sessions that have all words, newest first.",
		query: append([]param{{name: "q", kind: "string", about: "words, or beginnings of words; without them the newest items"},
			{name: "tool", kind: "string", about: "calls of this tool and their results"},
			{name: "role", kind: "string", about: "user, assistant, tool or system"}, limitOf(mostFound)}, pItems...),
		gives: either("found", "found_item"), do: (*api).searchAll,
	},
	{
		method: "GET", path: "/v1/stats", need: access.Read, in: reading, about: "Turns, tokens, tools and their failures, added up.",
		query: append([]param{{name: "by", kind: "string", about: "project, model or day (of UTC); project unless given"}}, pItems...),
		gives: object("stats"), do: (*api).stats,
	},
	{
		method: "GET", path: sessionPath + "/artifacts", need: access.Read, in: reading, about: "Artifacts of a session, oldest first.",
		gives: either("artifacts", "artifact"), do: (*api).artifacts,
	},
	{
		method: "POST", path: sessionPath + "/artifacts", need: access.Write, in: uploading, about: "Store the body as an artifact.",
		query: []param{
			{name: "tool", kind: "string", about: "which printed it"}, {name: "filename", kind: "string", about: "its name"},
			{name: "number", kind: "string", about: "that was taken for it before; none: the next"},
			{name: "agent", kind: "string", about: "whose output it is"},
			{name: "run", kind: "string", about: "run of the session it belongs to"},
			{name: "tool_call", kind: "string", about: "call it belongs to"},
			{name: "summary", kind: "string", about: "what it is"},
			{name: "category", kind: "string", about: "provider_raw, hook_log, traceback, debug, …"},
		},
		takes: []body{{typeBytes, ""}}, gives: object("artifact"), status: 201, also: []int{413, 503}, do: (*api).putArtifact,
	},
	{
		method: "GET", path: "/v1/artifacts/{id}", need: access.Read, in: reading,
		about: "The bytes of an artifact, to be saved.", query: []param{pRange, pMatch},
		gives: []body{{typeBytes, ""}}, also: []int{304, 416}, do: (*api).artifact,
	},
	{
		method: "GET", path: "/v1/blobs/{sha256}", need: access.Read, in: reading,
		about: "The bytes of a blob, to be saved.", query: []param{pRange, pMatch},
		gives: []body{{typeBytes, ""}}, also: []int{304, 410, 416}, do: (*api).blob,
	},
	{
		method: "GET", path: "/v1/read", need: access.Read, in: reading, about: "What an address leads to, by lines.",
		query: append([]param{{name: "url", kind: "string",
			about: "artifact://…, agent://…, blob:sha256:…, or a local_log"},
			{name: "session", kind: "string", about: "whose numbers are meant"}}, pLines...),
		gives: []body{{typeBytes, ""}}, also: []int{416}, do: (*api).resolve,
	},
	{
		method: "POST", path: "/mcp", need: access.Read, in: reading,
		about: "A message of the Model Context Protocol: tools and resources that read what the token may read.",
		takes: object("mcp"), gives: object("mcp"), also: []int{413, 415}, do: (*api).serveMCP,
	},
}
