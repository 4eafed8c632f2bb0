package tenants

import (
	"slices"

	"spool/pkg/events"
)

// Role is what a user is for.
type Role string

// The roles.
const (
	Admin     Role = "admin"     // everything in the tenant: operators, spool up, restore, erase
	Persister Role = "persister" // applies events; publishes none but ends of silent outputs
	Ingest    Role = "ingest"    // publishes events of all sessions but deletions, and reads: the HTTP side
	Collector Role = "gc"        // collects garbage; publishes no events and no items
	Reader    Role = "reader"    // reads all sessions, writes nothing
	Agent     Role = "agent"     // publishes events of its sessions, and gets their acks
)

// Roles is every role.
var Roles = []Role{Admin, Persister, Ingest, Collector, Reader, Agent}

const (
	api = "$JS.API."
	any = ".>"
)

// Apart reports whether users of a role live in accounts of their own, and reach of the tenant what their passages lead to. The
// others run the system: their account is the tenant's, and they are trusted with it.
//
// A permission says what a user publishes, and not where the server is to send the answer: it writes answers to any subject of the
// user's account, past the user's permissions. In the tenant's account that would be a record, an object, an item or a consumer's ack.
func (r Role) Apart() bool { return r == Agent || r == Reader }

// passage is a subject that leads from an account of its own into the tenant's (a service: a message and its answers), or out of it
// (a stream). What a service is asked arrives under the tenant's own answer subject, whatever the user named.
type passage struct {
	subject string
	as      string // what the user publishes to, when it is called otherwise
	stream  bool
	many    string // a service that answers more than once: how long after an answer another one may come; "": it answers once
}

// How long a server remembers where answers go: messages of a fast batch have mostly no answer of their own, and a consumer that has
// nothing to say sends a heartbeat every 15 s.
const (
	eventAnswers = "20s"
	readAnswers  = "20s"
	pullAnswers  = "2m"
)

// doors are the subjects at which a tenant's account lets its agents and readers through: what all passages are cut from.
func doors(r Role) []passage {
	switch r {
	case Agent:
		return []passage{{subject: events.EventSubjects, many: eventAnswers}}
	case Reader:
		return reading()
	}
	return nil
}

// passages are those of a user.
func (u User) passages() (list []passage) {
	if u.Role != Agent {
		return doors(u.Role)
	}
	for _, s := range u.Sessions {
		for _, kind := range events.Kinds {
			p := passage{as: events.SessionEvents(s, kind), many: eventAnswers}
			scope := u.scope(s)
			if scope != events.Everywhere { // all programs of a system share that user: it is nobody's name
				scope = scope.Apart(u.Name)
			}
			p.subject = scope.Stamp(p.as)
			list = append(list, p)
		}
	}
	return list
}

// scope is which sessions an agent may name in an event of one of its sessions: all of its own, and that one alone where
// their names are too long together to stand in a subject. The server writes it there.
func (u User) scope(of string) events.Scope {
	if slices.Contains(u.Sessions, allSessions) {
		return events.Everywhere
	}
	s, err := events.NewScope(u.Sessions...)
	if err != nil {
		return events.Scope(of)
	}
	return s
}

// Scope is what a user's own programs stamp their events with, because it may not publish all of them without; "":
// nothing.
func (u User) Scope() events.Scope {
	if u.Role == Ingest {
		return events.Everywhere
	}
	return ""
}

// reading is what a reader asks for. It makes no consumer by itself, because who makes one says to which subject of the tenant's account
// it delivers; a persister makes it (natsadmin.ServeReaders). Consumers of others are out of reach because their names are secrets:
// there is no list of them, and nobody can guess one (events.ReaderConsumer).
func reading() []passage {
	list := []passage{
		{subject: api + "INFO"}, {subject: api + "STREAM.INFO.*"}, {subject: api + "STREAM.NAMES"}, {subject: api + "STREAM.LIST"},
		{subject: api + "CONSUMER.LIST." + events.EventsStream},
		{subject: "$JS.ACK." + events.ItemsStream + any, many: readAnswers},
		{subject: "$SRV" + any, many: readAnswers}, {subject: events.ServiceSubjects, many: readAnswers},
		{subject: events.LiveSubjects, stream: true}, {subject: events.ItemSubjects, stream: true},
	}
	for _, s := range events.ReaderStreams {
		list = append(list,
			passage{subject: api + "STREAM.MSG.GET." + s},
			passage{subject: api + "DIRECT.GET." + s, many: readAnswers}, passage{subject: api + "DIRECT.GET." + s + any, many: readAnswers},
			passage{subject: events.ReaderRequest(s), as: api + "CONSUMER.CREATE." + s + any},
			passage{subject: api + "CONSUMER.MSG.NEXT." + s + ".*", many: pullAnswers},
		)
		for _, verb := range []string{"INFO", "DELETE", "UNPIN", "RESET"} {
			list = append(list, passage{subject: api + "CONSUMER." + verb + "." + s + ".*"})
		}
	}
	return list
}

// allSessions stands for every session in the list of an agent. The command refuses it: it is for systems where all agents share a user.
const allSessions = "*"

// denied is what a user may not publish of what Permissions give. Without a scope an operation may delete a session.
func (u User) denied() []string {
	if u.Role == Ingest {
		return []string{events.SessionEvents(allSessions, events.KindControl)}
	}
	return nil
}

// Permissions are the subjects that a user may publish and subscribe to. All: whatever is in the account. Who lives in an account of
// its own reaches no more than its passages anyway; with permissions it is told what it may not.
func (u User) Permissions() (publish, subscribe []string, all bool) {
	subscribe = []string{u.Inbox() + any}
	switch u.Role {
	case Admin:
		return nil, nil, true
	case Agent, Reader:
		for _, p := range u.passages() {
			switch {
			case p.stream:
				subscribe = append(subscribe, p.subject)
			case p.as != "":
				publish = append(publish, p.as)
			default:
				publish = append(publish, p.subject)
			}
		}
		return publish, subscribe, false
	case Persister:
		// Streams are changed by sessions that are deleted and by trimming; none is removed, reconfigured or copied out.
		publish = append(daemon(), "$KV."+events.RecordsBucket+any, "$O"+any, "$JS.ACK."+events.EventsStream+any,
			events.SessionEvents(allSessions, events.KindChunk),
			events.ItemSubjects, events.DeadSubjects, events.LiveSubjects, events.MarksSubject, events.PersistersSubject, events.PersisterSubjects,
			api+"STREAM.PURGE.*", api+"STREAM.MSG.DELETE.*")
		subscribe = append(subscribe, events.ReaderRequests, events.PersistersSubject, events.PersisterSubjects)
	case Collector:
		publish = append(daemon(), "$KV."+events.RecordsBucket+any, "$O"+any, "$JS.ACK."+events.GCStream+any,
			events.GCSubjects, api+"STREAM.PURGE.*", api+"STREAM.MSG.DELETE.*")
	case Ingest:
		publish = append(reads(), events.EventSubjects, "$O."+events.InboxBucket+any, api+"STREAM.INFO."+events.ObjectStream(events.InboxBucket),
			api+"STREAM.MSG.GET."+events.EventsStream, api+"CONSUMER.INFO."+events.EventsStream+".*")
		subscribe = append(subscribe, "$SRV"+any, events.ServiceSubjects, events.LiveSubjects, events.ItemSubjects)
		return publish, subscribe, false
	}
	return publish, append(subscribe, "$SRV"+any, events.ServiceSubjects, events.GCSubjects), false
}

// daemon is what services that change records ask JetStream for.
func daemon() []string {
	return []string{
		api + "INFO", api + "STREAM.INFO.*", api + "STREAM.NAMES", api + "STREAM.LIST", api + "STREAM.MSG.GET.*", api + "DIRECT.GET" + any,
		api + "CONSUMER" + any, "$JS.FC" + any, "$SRV" + any, events.ServiceSubjects,
	}
}

// reads is what a user in the tenant's account asks for who reads.
func reads() []string {
	var list []string
	for _, p := range reading() {
		if !p.stream && p.as == "" {
			list = append(list, p.subject)
		}
	}
	for _, s := range events.ReaderStreams {
		list = append(list, api+"CONSUMER.CREATE."+s, api+"CONSUMER.CREATE."+s+any)
	}
	return slices.Clip(list)
}
