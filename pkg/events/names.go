package events

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"spool/internal/family"
)

// Streams and buckets (DESIGN 4).
const (
	EventsStream = "SPOOL_EVENTS"
	ItemsStream  = "SPOOL_ITEMS"
	DeadStream   = "SPOOL_DEAD"
	GCStream     = "SPOOL_GC"

	RecordsBucket   = "spool"
	NodesBucket     = "spool_nodes"
	BlobsBucket     = "spool_blobs"
	ArtifactsBucket = "spool_artifacts"
	InboxBucket     = "spool_inbox"
)

// PersisterGroup is the priority group in which persisters share a partition's consumer: one of them is pinned.
const PersisterGroup = "persister"

const root = "spool.v1."

// Subjects bound to the streams, and the transform that partitions events by their session token.
const (
	EventSubjects     = root + "event.*.*.*"
	ItemSubjects      = root + "item.>"
	DeadSubjects      = root + "dead.*.*.*"
	GCSubjects        = root + "gc.>"
	GCRunSubject      = root + "gc.run"      // asks for a cycle
	GCScheduleSubject = root + "gc.schedule" // has the server ask for one every so often
	GCKeeperSubject   = root + "gc.keeper"   // who has made the schedule is there
	GCReportSubject   = root + "gc.report"
	GCStateSubject    = root + "gc.state" // what one gc cycle must know of the one before it
	MarksSubject      = root + "gc.marks" // how far each stream was, for when one of them goes back
	ProbeSubject      = root + "gc.probe" // whether the server stores
	PartitionSubjects = root + "p.>"
	LiveSubjects      = root + "live.>"
	ServiceSubjects   = root + "service.*.stats"

	PersistersSubject = root + "persisters"      // what persisters tell each other: who is there and holds what
	PersisterSubjects = PersistersSubject + ".*" // whether each of them is there: PersisterSubject

	ReaderRequests = root + "reader.create.>" // readers ask for a consumer; see ReaderRequest
)

// PersisterSubject is where one persister hears, and nobody else does: the server knows when it is gone.
func PersisterSubject(id string) string { return PersistersSubject + "." + id }

// PartitionTransform is the destination of the stream's subject transform for EventSubjects.
var PartitionTransform = fmt.Sprintf("%sp.{{partition(%d,1)}}.{{wildcard(1)}}.{{wildcard(2)}}.{{wildcard(3)}}", root, Partitions)

// ErrToken is wrapped by every refusal of a session, thread or other name (SPEC B2).
var ErrToken = family.Invalid.New("bad name")

// MaxToken is the longest name, in bytes.
const MaxToken = 128

// CheckToken reports whether s may become a subject token, an object name and a record key: [A-Za-z0-9_-]{1,128}. The
// error names the value, what it stands for and the rule.
func CheckToken(what, s string) error {
	if s == "" {
		return fmt.Errorf("%w: %s is empty; use 1 to %d of A-Z a-z 0-9 _ -", ErrToken, what, MaxToken)
	}
	if len(s) > MaxToken {
		return fmt.Errorf("%w: %s %q… is %d bytes long; use at most %d", ErrToken, what, s[:32], len(s), MaxToken)
	}
	for i := 0; i < len(s); i++ {
		if !tokenByte[s[i]] {
			return fmt.Errorf("%w: %s %q has %q at byte %d; use only A-Z a-z 0-9 _ -", ErrToken, what, s, s[i], i)
		}
	}
	return nil
}

// CheckAgent refuses what no agent is given as its id, or as that of its parent (SPEC A9): tokens, with dots between them.
func CheckAgent(what, id string) (err error) {
	for name := range strings.SplitSeq(id, ".") {
		err = errors.Join(err, CheckToken(what, name))
	}
	return err
}

var tokenByte = func() (t [256]bool) {
	for c := range t {
		t[c] = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
	}
	return t
}()

// MainThread is the thread of a session that is meant when none is named.
const MainThread = "main"

// Thread identifies a thread: a named line of work in a session.
type Thread struct{ Session, Name string }

// String is "session/thread".
func (t Thread) String() string { return t.Session + "/" + t.Name }

// Validate checks both names.
func (t Thread) Validate() error {
	return errors.Join(CheckToken("session", t.Session), CheckToken("thread", t.Name))
}

// ParseThread reads "session" (its main thread) or "session/thread".
func ParseThread(s string) (Thread, error) {
	session, name, ok := strings.Cut(s, "/")
	if !ok {
		name = MainThread
	}
	t := Thread{Session: session, Name: name}
	return t, t.Validate()
}

// EventSubject is where agents publish: spool.v1.event.<session>.<thread>.<kind>.
func EventSubject(t Thread, k Kind) string {
	return root + "event." + t.Session + "." + t.Name + "." + k.String()
}

// SessionEvents matches the events of a kind that are published to a session without a scope; "*" is every session.
func SessionEvents(session string, k Kind) string {
	return EventSubject(Thread{Session: session, Name: "*"}, k)
}

// PartitionFilter matches one partition's events as EVENTS stores them.
func PartitionFilter(p int) string { return root + "p." + strconv.Itoa(p) + ".>" }

// EveryThread is, in a filter, the name of all threads of a session.
const EveryThread = "*"

// StoredFilter matches the events of a thread as EVENTS stores them.
func StoredFilter(t Thread) string { return root + "p.*." + t.Session + "." + t.Name + ".*" }

// ParseStored splits a subject as EVENTS stores it: spool.v1.p.<partition>.<session>.<thread>.<kind>, or <kind>@<scope>.
func ParseStored(subject string) (Thread, Kind, error) {
	t, k, _, err := parseStored(subject)
	return t, k, err
}

func parseStored(subject string) (t Thread, k Kind, s Scope, err error) {
	rest, ok := strings.CutPrefix(subject, root+"p.")
	parts := strings.SplitN(rest, ".", 4)
	if !ok || len(parts) != 4 {
		return t, 0, "", fmt.Errorf("%w: subject %q is not of the form %sp.<partition>.<session>.<thread>.<kind>",
			ErrToken, subject, root)
	}
	t = Thread{Session: parts[1], Name: parts[2]}
	kind, s, bad := cutScope(parts[3])
	k, err = parseKind(kind)
	return t, k, s, errors.Join(t.Validate(), err, bad)
}

// ItemSubject is where the persister publishes an item: spool.v1.item.<session>.<thread>.<type>[.<detail>]. A detail that
// is no token (a tool may be named anything) has its other bytes replaced by "_".
func ItemSubject(t Thread, typ, detail string) string {
	typ = cmp.Or(typ, TypeMessage)
	s := root + "item." + t.Session + "." + t.Name + "." + Token(typ)
	if detail != "" {
		s += "." + Token(detail)
	}
	return s
}

// ItemFilter matches items; an empty field matches anything. Details are matched by type, not separately.
func ItemFilter(session, thread, typ string) string {
	if typ != "" {
		return ItemFilters(session, thread, typ)[1]
	}
	return root + "item." + star(session) + "." + star(thread) + ".>"
}

// ItemFilters matches items of one type with and without a detail.
func ItemFilters(session, thread, typ string) []string {
	s := root + "item." + star(session) + "." + star(thread) + "." + Token(typ)
	return []string{s, s + ".*"}
}

// NoItems is a filter that matches no item, another one for each session, and for "", which stands for all.
func NoItems(session string) string { return root + "item." + star(session) }

// DetailFilter matches items of a type, "" for any, with a detail.
func DetailFilter(session, thread, typ, detail string) string {
	if typ == "" {
		typ = "*"
	} else {
		typ = Token(typ)
	}
	return root + "item." + star(session) + "." + star(thread) + "." + typ + "." + Token(detail)
}

// LiveSubject is where the persister tells what an open output prints, as Live frames. No stream holds it.
func LiveSubject(t Thread, output string) string {
	return root + "live." + t.Session + "." + t.Name + "." + output
}

// ParseItemSubject gives the thread of an item's subject.
func ParseItemSubject(subject string) (Thread, bool) {
	rest, ok := strings.CutPrefix(subject, root+"item.")
	parts := strings.Split(rest, ".")
	if !ok || len(parts) < 3 {
		return Thread{}, false
	}
	return Thread{Session: parts[0], Name: parts[1]}, true
}

// DeadFilter matches the dead letters of a thread; without its name those of its session, and without a session all.
func DeadFilter(t Thread) string { return root + "dead." + star(t.Session) + "." + star(t.Name) + ".*" }

// ParseDead reads the subject of a dead letter: what is known of the event, "_" where nothing is.
func ParseDead(subject string) (t Thread, kind string) {
	parts := strings.Split(strings.TrimPrefix(subject, root+"dead."), ".")
	if len(parts) != 3 {
		return Thread{}, ""
	}
	return Thread{Session: parts[0], Name: parts[1]}, parts[2]
}

// ServiceSubject is where a daemon of a role answers what it did.
func ServiceSubject(role string) string { return root + "service." + role + ".stats" }

// DeadSubject is where a poison event goes (SPEC B1). Names that are no tokens are made such.
func DeadSubject(session, thread, kind string) string {
	return root + "dead." + Token(session) + "." + Token(thread) + "." + Token(kind)
}

// Token makes a subject token of any text: bytes outside the rule become "_", 128 bytes at most, "_" when empty.
func Token(s string) string {
	if CheckToken("", s) == nil {
		return s
	}
	b := []byte(s)
	if len(b) > MaxToken {
		b = b[:MaxToken]
	}
	for i, c := range b {
		if !tokenByte[c] {
			b[i] = '_'
		}
	}
	if len(b) == 0 {
		return "_"
	}
	return string(b)
}

func star(s string) string {
	if s == "" {
		return "*"
	}
	return s
}

// Record keys in RecordsBucket (DESIGN 4).

// parse gives the two tokens behind the kind of a key.
func parse(kind, key string) (first, second string, ok bool) {
	parts := strings.Split(key, ".")
	if len(parts) != 3 || parts[0] != kind {
		return "", "", false
	}
	return parts[1], parts[2], true
}

func parseThread(kind, key string) (Thread, bool) {
	session, name, ok := parse(kind, key)
	return Thread{Session: session, Name: name}, ok
}

// HeadKey holds the head of an active thread.
func HeadKey(t Thread) string { return "thread." + t.Session + "." + t.Name }

// HeadKeys matches the heads of one session, or of all when session is "".
func HeadKeys(session string) string { return "thread." + star(session) + ".*" }

// ParseHeadKey is the inverse of HeadKey.
func ParseHeadKey(key string) (Thread, bool) { return parseThread("thread", key) }

// HistoryKey holds the head of a completed thread, by the UTC date of its end: yyyy-mm-dd (SPEC C4).
func HistoryKey(date string, t Thread) string {
	return "history." + date + "." + t.Session + "." + t.Name
}

// HistoryKeys matches the heads of completed threads of a session, or of all when session is ""; HistoryOf that of one
// thread, whatever its date.
func HistoryKeys(session string) string { return HistoryKeysOn("*", session) }

// HistoryKeysOn matches those that ended on a date.
func HistoryKeysOn(date, session string) string {
	return "history." + date + "." + star(session) + ".*"
}

// HistoryOf matches the head of a completed thread.
func HistoryOf(t Thread) string { return HistoryKey("*", t) }

// ParseHistoryKey is the inverse of HistoryKey.
func ParseHistoryKey(key string) (t Thread, date string, ok bool) {
	parts := strings.Split(key, ".")
	if len(parts) != 4 || parts[0] != "history" {
		return Thread{}, "", false
	}
	return Thread{Session: parts[2], Name: parts[3]}, parts[1], true
}

// LeftKey says what became of a thread that was renamed or removed, and what it had seen, also once another has its name.
func LeftKey(t Thread) string { return "left." + t.Session + "." + t.Name }

// LeftKeys matches what became of all threads, see LeftKey.
const LeftKeys = "left.*.*"

// LeftKeysOf matches what became of a session's threads.
func LeftKeysOf(session string) string { return "left." + session + ".*" }

// ParseLeftKey is the inverse of LeftKey.
func ParseLeftKey(key string) (Thread, bool) { return parseThread("left", key) }

// SessionKey holds a session's header.
func SessionKey(session string) string { return "session." + session }

// ParseSessionKey is the inverse of SessionKey.
func ParseSessionKey(key string) (session string, ok bool) {
	session, ok = strings.CutPrefix(key, "session.")
	return session, ok && !strings.Contains(session, ".")
}

// SessionKeys matches every session's header.
const SessionKeys = "session.*"

// CounterKey holds the numbers that a session's artifacts have used (SPEC A1, A9).
func CounterKey(session string) string { return "counter." + session }

// ArtifactKey holds the record of an artifact. ArtifactKeys matches those with this session and id; "" matches any.
func ArtifactKey(session, id string) string { return "artifact." + session + "." + id }

// ArtifactKeys matches artifacts, see ArtifactKey.
func ArtifactKeys(session, id string) string { return ArtifactKey(star(session), star(id)) }

// OutputKey holds an output that is open (SPEC O7); it is removed when the output ends.
func OutputKey(session, id string) string { return "output." + session + "." + id }

// OutputBaseKey holds the base of an open output, once it has one; it is removed with the output's record.
func OutputBaseKey(session, id string) string { return "outputbase." + session + "." + id }

// OutputKeys matches the open outputs of a session, or of all when session is "".
func OutputKeys(session string) string { return OutputKey(star(session), "*") }

// ParseOutputKey is the inverse of OutputKey.
func ParseOutputKey(key string) (session, id string, ok bool) { return parse("output", key) }

// SharedKey marks that an artifact's record names bytes which others may name too; object identifies the bytes.
// SharedKeys matches the marks of an object.
func SharedKey(object, session, id string) string {
	return "shared." + object + "." + session + "." + id
}

// SharedKeys matches the marks of an object, see SharedKey.
func SharedKeys(object string) string { return SharedKey(object, "*", "*") }

// PromptKey holds a prompt that waits for its answer; an id that is no token is hashed (SPEC I8).
func PromptKey(t Thread, id string) string { return "prompt." + promptKey(t, id) }

// PromptKeys matches the open prompts of a session, or of all when session is "".
func PromptKeys(session string) string { return "prompt." + star(session) + ".*.*" }

// AnsweredKey holds how a prompt was settled.
func AnsweredKey(t Thread, id string) string { return "answered." + promptKey(t, id) }

// IsAnswered reports whether a key is an AnsweredKey.
func IsAnswered(key string) bool { return strings.HasPrefix(key, "answered.") }

func promptKey(t Thread, id string) string {
	if CheckToken("", id) != nil {
		sum := sha256.Sum256([]byte(id))
		id = "=" + hex.EncodeToString(sum[:16]) // "=" is in no token
	}
	return t.Session + "." + t.Name + "." + id
}

// ParsePromptKey gives the thread of a prompt's key.
func ParsePromptKey(key string) (Thread, bool) {
	parts := strings.Split(key, ".")
	if len(parts) != 4 || parts[0] != "prompt" {
		return Thread{}, false
	}
	return Thread{Session: parts[1], Name: parts[2]}, true
}

// RunKey holds where a run of an agent stands (SPEC A6). RunKeys matches the runs of a session, or of all when it is "".
func RunKey(session, id string) string { return "run." + session + "." + id }

// RunKeys matches runs, see RunKey.
func RunKeys(session string) string { return RunKey(star(session), "*") }

// ParseRunKey is the inverse of RunKey.
func ParseRunKey(key string) (session, id string, ok bool) { return parse("run", key) }

// StreamKey holds how a thread is a stream of the Durable Streams protocol. StreamKeys matches them all.
func StreamKey(t Thread) string { return "stream." + t.Session + "." + t.Name }

// StreamKeys matches the records of streams, see StreamKey.
const StreamKeys = "stream.*.*"

// SubscriptionKey holds a subscription of the Durable Streams protocol. SubscriptionKeys matches them all.
func SubscriptionKey(id string) string {
	return "subscription." + base64.RawURLEncoding.EncodeToString([]byte(id))
}

// SubscriptionKeys matches the records of subscriptions, see SubscriptionKey.
const SubscriptionKeys = "subscription.*"

// ParseStreamKey is the inverse of StreamKey.
func ParseStreamKey(key string) (Thread, bool) { return parseThread("stream", key) }

// ClaudeKey holds what the session store of the Claude Agent SDK calls a thread. ClaudeKeys matches those of a session, ClaudeMains the
// main threads of all.
func ClaudeKey(t Thread) string { return "claude." + t.Session + "." + t.Name }

// ClaudeKeys matches the records of a session, see ClaudeKey.
func ClaudeKeys(session string) string { return ClaudeKey(Thread{session, "*"}) }

// ClaudeMains matches the records of all main threads, see ClaudeKey.
const ClaudeMains = "claude.*." + MainThread

// ParseClaudeKey is the inverse of ClaudeKey.
func ParseClaudeKey(key string) (Thread, bool) { return parseThread("claude", key) }

// PackKey says where a pack's bytes are, or that they are gone.
func PackKey(id string) string { return "pack." + id }

// BlobKey says where a blob's bytes are, or that they are gone.
func BlobKey(hex string) string { return "blob." + hex }

// MovedKey says which pack took over the nodes of a repacked one.
func MovedKey(pack string) string { return "moved." + pack }

// GCReportKey holds the report of the last gc cycle, JSON.
const GCReportKey = "gc.report"

// What watching over the store leaves, JSON. They are of the class gc: nothing depends on them, and a backup leaves them out.
const (
	MarksKey = "gc.marks" // how far each stream was
	HeadsKey = "gc.heads" // the last look at what every head leads to
	ScrubKey = "gc.scrub" // the last scrub, and where the one that goes on is
	QuietKey = "gc.quiet" // stands where a collector had read all that there was
	EndedKey = "gc.ended" // up to which record removed outputs are forgotten; msgpack
)

// LettersKey says of which events operators removed the dead letters.
const LettersKey = "letters.removed"

// Lanes is how many fences there are: commit lanes are spread over them.
const Lanes = 64

// FenceKey is the fence of one commit lane.
func FenceKey(lane int) string { return "fence." + strconv.Itoa(lane) }

// LaneKey is written by every commit of a lane: it carries the fence's expectation.
func LaneKey(lane int) string { return "lane." + strconv.Itoa(lane) }

// RefusedKey says which events of a partition were refused, and may have no dead letter yet.
func RefusedKey(partition int) string { return "refused." + strconv.Itoa(partition) }

// TriedKey says what a persister tries of a partition, and which of them died over an event.
func TriedKey(partition int) string { return "tried." + strconv.Itoa(partition) }

// RecordSubject is the subject of a record in RecordsBucket; RecordsStream is its stream.
func RecordSubject(key string) string { return "$KV." + RecordsBucket + "." + key }

// RecordsStream is the stream behind RecordsBucket.
const RecordsStream = "KV_" + RecordsBucket

// ObjectStream is the stream behind an object bucket.
func ObjectStream(bucket string) string { return "OBJ_" + bucket }

// PartitionConsumer is the durable consumer of one partition.
func PartitionConsumer(p int) string { return "p" + strconv.Itoa(p) }
