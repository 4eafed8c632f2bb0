package tenants

import "spool/pkg/events"

// Role is what a user is for.
type Role string

// The roles.
const (
	Admin     Role = "admin"     // everything in the tenant: operators, spool up, restore, erase
	Persister Role = "persister" // applies events; publishes none
	Ingest    Role = "ingest"    // publishes events of all sessions, and reads: the HTTP side
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

// streams that hold what is stored, without EVENTS and the inbox: what readers need.
var stored = []string{
	events.ItemsStream, events.RecordsStream,
	events.ObjectStream(events.NodesBucket), events.ObjectStream(events.BlobsBucket), events.ObjectStream(events.ArtifactsBucket),
}

// Permissions are the subjects that a user may publish and subscribe to. All: whatever is in the account.
func (u User) Permissions() (publish, subscribe []string, all bool) {
	subscribe = []string{u.Inbox() + any}
	switch u.Role {
	case Admin:
		return nil, nil, true
	case Agent:
		for _, s := range u.Sessions {
			publish = append(publish, events.SessionEvents(s))
		}
		return publish, subscribe, false
	case Persister:
		// Streams are changed by sessions that are deleted and by trimming; none is removed, reconfigured or copied out.
		publish = append(daemon(), "$KV."+events.RecordsBucket+any, "$O"+any, "$JS.ACK."+events.EventsStream+any,
			events.ItemSubjects, events.DeadSubjects, events.LiveSubjects, events.MarksSubject, api+"STREAM.PURGE.*", api+"STREAM.MSG.DELETE.*")
	case Collector:
		publish = append(daemon(), "$KV."+events.RecordsBucket+any, "$O"+any, "$JS.ACK."+events.GCStream+any,
			events.GCSubjects, api+"STREAM.PURGE.*", api+"STREAM.MSG.DELETE.*")
	case Ingest:
		publish = append(reads(), events.EventSubjects, "$O."+events.InboxBucket+any, api+"STREAM.INFO."+events.ObjectStream(events.InboxBucket),
			api+"STREAM.MSG.GET."+events.EventsStream)
		subscribe = append(subscribe, "$SRV"+any, events.ServiceSubjects, events.LiveSubjects)
		return publish, subscribe, false
	case Reader:
		return reads(), append(subscribe, events.LiveSubjects), false
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

// reads is what a reader asks JetStream for.
func reads() []string {
	list := []string{api + "INFO", api + "STREAM.INFO.*", api + "STREAM.NAMES", api + "STREAM.LIST", api + "CONSUMER.LIST." + events.EventsStream,
		"$JS.FC" + any, "$JS.ACK." + events.ItemsStream + any, "$SRV" + any, events.ServiceSubjects}
	for _, s := range stored {
		list = append(list, api+"STREAM.MSG.GET."+s, api+"DIRECT.GET."+s, api+"DIRECT.GET."+s+any)
		for _, verb := range []string{"CREATE", "INFO", "DELETE", "MSG.NEXT", "UNPIN", "RESET"} {
			list = append(list, api+"CONSUMER."+verb+"."+s, api+"CONSUMER."+verb+"."+s+any)
		}
	}
	return list
}
