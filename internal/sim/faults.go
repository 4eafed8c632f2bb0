package sim

import (
	"fmt"
	"strings"

	"spool/internal/memjs"
	"spool/pkg/events"
)

// fault makes messages fail: the N-th from when it was told, of those that it is for, and the next ones (Times).
type fault struct {
	op    Op
	left  int
	times int
}

func newFault(o Op) *fault { return &fault{o, o.N, max(o.Times, 1)} }

// classOf names what a client asks of the server, by what it is for: writes by what they write, reads by what they read.
func classOf(a memjs.Action) string {
	if a.Kind != memjs.In || a.Verb != "PUB" {
		return ""
	}
	object := strings.HasPrefix(a.Stream, "OBJ_")
	api, isAPI := strings.CutPrefix(a.Subject, "$JS.API.")
	switch {
	case strings.HasPrefix(a.Subject, "$JS.ACK."):
		return "ack"
	case !isAPI && object:
		return "object"
	case !isAPI:
		return writes[a.Stream]
	case strings.HasPrefix(api, "DIRECT.GET.") && object, strings.HasPrefix(api, "STREAM.MSG.GET.") && object:
		return "chunks"
	case strings.HasPrefix(api, "DIRECT.GET."):
		return "direct get"
	case strings.HasPrefix(api, "STREAM.MSG.GET.") && a.Stream == events.RecordsStream:
		return "record get"
	case strings.HasPrefix(api, "STREAM.MSG.GET."):
		return "message get"
	case strings.HasPrefix(api, "STREAM.INFO."):
		return "stream info"
	case strings.HasPrefix(api, "STREAM.PURGE."), strings.HasPrefix(api, "STREAM.MSG.DELETE."):
		return "purge"
	case strings.HasPrefix(api, "CONSUMER.INFO."):
		return "consumer info"
	case strings.HasPrefix(api, "CONSUMER.MSG.NEXT."):
		return "pull"
	case strings.HasPrefix(api, "CONSUMER."):
		return "consumer"
	}
	return "api"
}

// writes are the classes of publishes, by stream; of the others, to a live reader for instance, there is no class.
var writes = map[string]string{
	events.EventsStream: "event", events.RecordsStream: "commit", events.ItemsStream: "item", events.DeadStream: "letter",
}

// readClasses and writeClasses are what a fault can be for.
var (
	readClasses = []string{"record get", "message get", "direct get", "chunks", "stream info", "consumer info", "consumer",
		"pull", "api"}
	writeClasses = []string{"event", "commit", "item", "letter", "object", "ack", "purge"}
)

// kindOf says what a process is: an agent 1, a persister 2, the operator 3, a reader 4.
func kindOf(process string) int {
	for i, name := range []string{"agent", "persister", "operator", "reader"} {
		if strings.HasPrefix(process, name) {
			return i + 1
		}
	}
	return 0
}

// hits reports whether an action is one that the fault counts: of an agent (Kind 1), a persister (2), the operator
// (3), a reader (4), or of an agent or a persister (0).
func (f *fault) hits(a memjs.Action) bool {
	class, kind := classOf(a), kindOf(a.Process)
	if a.Kind != memjs.In || a.Verb != "PUB" || f.op.On != "" && f.op.On != class {
		return false
	}
	return f.op.Kind == kind || f.op.Kind == 0 && (kind == 1 || kind == 2)
}

// offline is the answer of a server that cannot say now: of another family than Busy.
var offline = memjs.Fault{Failure: memjs.Refuse, Code: 503, ErrCode: 10023, Text: "insufficient resources"}

func (f *fault) fault() memjs.Fault {
	switch f.op.Do {
	case Refuse:
		switch f.op.Ms {
		case 1:
			return memjs.Fault{Failure: memjs.NoResponders}
		case 2:
			return offline
		}
		return memjs.Busy
	case DropAsk:
		return memjs.Fault{Failure: memjs.DropRequest}
	case DropTell:
		if f.op.Ms == 1 {
			return memjs.Fault{Failure: memjs.CutAfter}
		}
		return memjs.Fault{Failure: memjs.DropAnswer}
	case DieAt:
		if f.op.Ms == 1 {
			return memjs.Fault{Failure: memjs.CutAfter}
		}
		return memjs.Fault{Failure: memjs.CutBefore}
	}
	return memjs.Fault{}
}

// faultOf is what goes wrong with an action of the server; wait: it does not happen now.
func (d *driver) faultOf(a memjs.Action) (f memjs.Fault, wait bool) {
	for i, one := range d.faults {
		if !one.hits(a) {
			continue
		}
		if one.left--; one.left >= 0 {
			continue
		}
		if one.times--; one.times == 0 {
			d.faults = append(d.faults[:i], d.faults[i+1:]...)
		} else {
			one.left = 0
		}
		d.count(classOf(a), string(one.op.Do))
		switch one.op.Do {
		case Late:
			d.pause(a.Process, ms(one.op.Ms))
			return f, true
		case DieAt:
			d.doomed = a.Process
		}
		return one.fault(), false
	}
	return f, false
}

// count counts what was done to a class of messages.
func (w *World) count(class, what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[fmt.Sprintf("%-13s %s", class, what)]++
}

// staleRead is memjs.Config.Stale: how many operations a copy does not know that answers a read. A single server
// leads: any copy answers direct reads, and nothing else.
func (w *World) staleRead(r memjs.Read) int {
	if r.Kind != "direct" {
		return 0
	}
	w.mu.Lock()
	left := w.stale
	w.stale = max(left-1, 0)
	w.mu.Unlock()
	if left == 0 {
		return 0
	}
	class := "direct get"
	if strings.HasPrefix(r.Stream, "OBJ_") {
		class = "chunks"
	}
	w.count(class, string(Stale))
	return 1 + left*7%r.Operations()
}

var failures = [...]string{"", " REFUSED", " NO RESPONDERS", " LOST", " ANSWER LOST", " CUT BEFORE", " CUT AFTER"}

// line is an action as a trace tells it.
func line(a memjs.Action, f memjs.Fault) string {
	return a.String() + failures[f.Failure]
}
