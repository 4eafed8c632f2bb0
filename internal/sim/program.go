package sim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"spool/internal/natsio"
)

// Program is what a schedule runs: who there is, what they do, what goes wrong. It is a value: it can be stored,
// made smaller, and run again. Seed decides only in which order things happen that may happen in any order.
type Program struct {
	What string `json:"what,omitempty"` // it is for: the defect that it showed
	Open bool   `json:"open,omitempty"` // that defect is not mended

	Seed       uint64 `json:"seed"`
	Persisters int    `json:"persisters"`          // processes that apply events, from the start
	Agents     int    `json:"agents"`              // processes that publish
	Offline    bool   `json:"offline,omitempty"`   // agents keep on disk what no server takes
	Free       bool   `json:"free,omitempty"`      // the server answers at once: the schedule is coarse, and cheap
	BatchMax   int    `json:"batch_max,omitempty"` // events of a commit; 0 = the persister's own
	Ops        []Op   `json:"ops"`

	Payload     int   `json:"payload,omitempty"`      // bytes of a message at most; 0 = 1 MiB
	EventsBytes int64 `json:"events_bytes,omitempty"` // that SPOOL_EVENTS may have; 0 = many
	ItemsAge    int   `json:"items_age,omitempty"`    // after that time, in ms, SPOOL_ITEMS forgets an item; 0 = never
}

// Op is one thing that somebody does. Ops begin in the order of the program; one of an agent waits until its
// agent's last one has ended.
type Op struct {
	Do      Verb `json:"do"`
	Who     int  `json:"who,omitempty"`     // agent or persister
	Session int  `json:"session,omitempty"` // index of Sessions
	Thread  int  `json:"thread,omitempty"`  // index of threadNames
	To      int  `json:"to,omitempty"`      // another thread, of a fork or a rename
	ToSess  int  `json:"to_session,omitempty"`
	As      int  `json:"as,omitempty"`     // producer; 0 = one of this process alone
	N       int  `json:"n,omitempty"`      // entries, pieces, messages
	Size    int  `json:"size,omitempty"`   // bytes of each
	Ms      int  `json:"ms,omitempty"`     // how long: patience of a publish, length of a pause
	Kind    int  `json:"kind,omitempty"`   // a variant
	Again   bool `json:"again,omitempty"`  // after an unknown outcome the same is published again; a Rename or Remove always, N ms later
	Unseen  bool `json:"unseen,omitempty"` // before it, an event that looks like the word of the server
	Split   bool `json:"split,omitempty"`  // each entry is a message of its own, linked to the one before it
	Image   int  `json:"image,omitempty"`  // of entries: each has this image, whose bytes others may have too; 0 = none

	On    string `json:"on,omitempty"`    // of a fault: the class of messages (classOf), or the step; "" = all
	Times int    `json:"times,omitempty"` // of a fault: how many of them in a row; 0 = one
}

// Verb names what an Op does.
type Verb string

// What agents do.
const (
	Publish     Verb = "publish"   // N entries in one call
	Async       Verb = "async"     // N entries one by one, and a flush; Kind 2: one of them can never be stored
	Echo        Verb = "echo"      // one entry N times: each is an entry of its own
	Poison      Verb = "poison"    // an entry that cannot be applied, and N behind it, linked to it
	PoisonOp    Verb = "poison-op" // an operation that cannot be applied, and N entries linked to it
	Skip        Verb = "skip"      // leaves out sequences, and N ms later publishes them as well; Kind: see skip
	Reuse       Verb = "reuse"     // gives sequences to entries, and N ms later to others, together if Split; Kind: see countAgain
	Fork        Verb = "fork"      // Thread becomes To of ToSess; Kind 1: whether it is there or not
	Rename      Verb = "rename"
	Remove      Verb = "remove"
	End         Verb = "end"
	Delete      Verb = "delete" // the session; Kind 1: unless something in it is live; 2: and N ms later otherwise, with the same sequence
	Output      Verb = "output" // a streamed output of N pieces, with pauses; Again: a short one, and pieces that are none of it
	Ask         Verb = "ask"
	Answer      Verb = "answer"
	Sign        Verb = "sign" // signs of life of the run N, of the kind Kind
	PutArtifact Verb = "artifact"
	Refer       Verb = "refer"       // reads a thread and, N ms later, publishes a step to To of ToSess that names its newest node
	Subscribe   Verb = "subscribe"   // begins to follow all items; Kind 1: durable
	Unsubscribe Verb = "unsubscribe" // ends it, as a crash does
	Read        Verb = "read"        // reads a thread to its beginning, over caches as old as the process
	Die         Verb = "die"         // the agent's process is killed; its next op is another process's
	FreezeAgent Verb = "freeze-agent"
	ThawAgent   Verb = "thaw-agent"
	Replace     Verb = "replace" // the agent's process stands still, another one takes its place; ThawAgent has both run
)

// What operators do, each as a process of its own.
const (
	Collect   Verb = "gc"       // Kind 1: with a quarantine; 2: and its moved records are forgotten at once
	Keep      Verb = "keep"     // remembers the head of a thread, for Undelete
	Undelete  Verb = "undelete" // everything
	Retain    Verb = "retention"
	BackUp    Verb = "backup" // all of it; at the end the last one is restored into an empty store
	Index     Verb = "index"  // feeds the history of prompts, for Ms; 0: with what there is
	Fsck      Verb = "fsck"   // Kind 1: with repair
	StartOne  Verb = "start"  // a persister more, in the place of one that is gone
	StopOne   Verb = "stop"   // a persister, cleanly
	KillOne   Verb = "kill"   // a persister
	FreezeOne Verb = "freeze" // a persister stands still, as by SIGSTOP
	ThawOne   Verb = "thaw"
	CutOne    Verb = "cut" // its connection
	CutAgent  Verb = "cut-agent"
	Crash     Verb = "crash"       // the server; Kind 1: it loses what it had not synced
	Sleep     Verb = "sleep"       // Ms
	Settle    Verb = "settle"      // until nobody has anything to do
	Refuse    Verb = "refuse"      // the N-th message from now is refused: the server is busy
	DropAsk   Verb = "drop-ask"    // … does not arrive
	DropTell  Verb = "drop-answer" // … has its answer lost
	Late      Verb = "late"        // … finds its process standing still, for Ms: it comes late, or its answer does
	DieAt     Verb = "die-at"      // … is the last of its process; Ms 1: it arrives
	Stale     Verb = "stale"       // the next N reads that any copy may answer are answered by one that is behind
	Away      Verb = "away"        // no server, until Back
	Back      Verb = "back"

	// At the N-th time from now that somebody comes to the step On: of a persister (persist.Step), or of a collector.
	KillStep  Verb = "kill-step"
	PauseStep Verb = "pause-step" // for Ms
	Slow      Verb = "slow"       // of Who's messages (Kind 1: an agent; 2: a persister; 3: the operator) one in N is taken
)

// numbers reports whether an operation gives sequences itself.
func (p Program) numbers(op int) bool { return p.Ops[op].Do == Skip || p.Ops[op].Do == Reuse }

// String is a line of a trace.
func (o Op) String() string {
	b, _ := json.Marshal(o)
	s := strings.NewReplacer(`"`, "", "{", "", "}", "", "do:", "", ",", " ").Replace(string(b))
	return s
}

func (p Program) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, %d persisters, %d agents, offline %v, free %v\n", p.Seed, p.Persisters, p.Agents,
		p.Offline, p.Free)
	for i, o := range p.Ops {
		fmt.Fprintf(&b, "  %2d %s\n", i, o)
	}
	return b.String()
}

// limits are those of a program's streams.
func (p Program) limits() natsio.Limits {
	return natsio.Limits{EventsBytes: cmp.Or(p.EventsBytes, 1<<30), ItemsBytes: 1 << 30, ItemsAge: ms(p.ItemsAge)}
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// wants reports whether a program does one of some things.
func (p Program) wants(verbs ...Verb) bool {
	return slices.ContainsFunc(p.Ops, func(o Op) bool { return slices.Contains(verbs, o.Do) })
}
