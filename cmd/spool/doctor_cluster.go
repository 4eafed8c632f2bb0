package main

import (
	"fmt"
	"strings"

	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/service"
	"spool/internal/text"
)

// permissions tells whether this user may do what most commands do.
func permissions(a *app, conn *natsio.Conn) finding {
	if err := natsadmin.New(conn).MayPublish(a.ctx); err != nil {
		return finding{Name: "permissions", Detail: strings.ReplaceAll(err.Error(), "\n", "; "),
			Do: "allow this user spool.v1.event.> and $KV.spool.>, or use one who may; reading works without"}
	}
	return finding{Name: "permissions", OK: true, Detail: "may publish events and write records"}
}

// replicas tells on how many servers the streams are.
func replicas(a *app, conn *natsio.Conn) finding {
	f := finding{Name: "replicas"}
	places, err := natsadmin.New(conn).Placements(a.ctx)
	if err != nil {
		f.Detail = err.Error()
		return f
	}
	least, clustered := places[0], false
	var lost, headless []string
	for _, p := range places {
		if p.Servers > 0 && p.Leader == "" {
			headless = append(headless, p.Stream)
		}
		if p.Replicas < least.Replicas {
			least = p
		}
		clustered = clustered || p.Servers > 0
		for _, name := range p.Lost {
			lost = append(lost, p.Stream+" on "+name)
		}
	}
	switch {
	case len(headless) > 0:
		f.Detail = "without a leader: " + strings.Join(headless, ", ")
		f.Do = "is a majority of the servers running? If it is, ask each for /healthz, and see \"A stream that has " +
			"stopped\" in docs/operations.md"
	case len(lost) > 0:
		f.Detail = "away or behind: " + strings.Join(lost, ", ")
		f.Do = "is that server running? Until it is back, the loss of another one stops writes"
	case clustered && least.Replicas == 1:
		f.Detail = fmt.Sprintf("%s has one copy, in a cluster", least.Stream)
		f.Do = "while its server is away nothing goes on: nats stream edit --replicas 3 for each stream, and start persisters with -replicas 3"
	case clustered:
		f.OK, f.Detail = true, text.Sprintf("%d copies of every stream at least", least.Replicas)
	default:
		f.OK, f.Detail = true, "one server: what is acked is as safe as its disk, with sync_interval: always"
	}
	return f
}

// daemons is what the daemons say that announced themselves.
func daemons(a *app, conn *natsio.Conn) []finding {
	all, err := natsadmin.New(conn).Daemons(a.ctx)
	if err != nil {
		return []finding{{Name: "version", Detail: err.Error()}}
	}
	return []finding{versions(all), passedOver(all), refused(all)}
}

// refused tells of what the store refuses for good: other sessions go on without it.
func refused(daemons []natsadmin.Daemon) finding {
	f := finding{Name: "refused", OK: true, Detail: "the store took all items and dead letters"}
	var items, letters int64
	for _, d := range daemons {
		items, letters = items+d.ItemsRefused, letters+d.LettersRefused
	}
	if items+letters > 0 {
		f.OK = false
		f.Detail = text.Sprintf("the store refused %d items and %d dead letters for good since the persisters began: their logs say which, "+
			"and why", items, letters)
		f.Do = "compare SPOOL_ITEMS, SPOOL_DEAD and max_payload with docs/operations.md; then start the persisters again. " +
			"readers have the items whole from their threads; spool fsck --events names events without a dead letter"
	}
	return f
}

// Some events are passed over when a server was away. When they are many, a producer is wrong.
const (
	manyPassedOver  = 100
	sharePassedOver = 100 // one in so many
)

// passedOver tells of events that were skipped and are no repetitions, or may be none. The producers of the first got no ack for
// what they are linked to, and publish all of them again (SPEC P2). One that links to what it never publishes does so with each event.
func passedOver(daemons []natsadmin.Daemon) finding {
	f := finding{Name: "links", OK: true, Detail: "no event was passed over for what it is linked to"}
	var n, all, guessed int64
	for _, d := range daemons {
		n, all, guessed = n+d.Superseded, all+d.Applied, guessed+d.Guessed
	}
	if n > 0 {
		f.Detail = fmt.Sprintf("%d of %d events were passed over since the persisters began: what they are linked to was "+
			"never stored, and their producers know; spool fsck --events proves it", n, all)
	}
	if guessed > 0 {
		f.Detail += text.Sprintf("; %d repeats that SPOOL_EVENTS can not tell from other entries any more: spool fsck --events "+
			"names what is none", guessed)
	}
	if n >= manyPassedOver && n >= all/sharePassedOver {
		f.OK = false
		f.Do = "find the producer that sends a prev which it never published, or does not publish again what got no ack " +
			"(docs/protocol.md): a persister with --log-level debug names thread, producer and prev of each. What it acked and " +
			"passed over is in SPOOL_EVENTS alone, until its producer publishes it again"
	}
	return f
}

// versions compares the daemons with this program.
func versions(daemons []natsadmin.Daemon) finding {
	own, _ := service.Version()
	f := finding{Name: "version", OK: true, Detail: "this is " + own}
	var groups []string
	for i := 0; i < len(daemons); {
		n := i
		for n < len(daemons) && daemons[n].Name == daemons[i].Name && daemons[n].Build == daemons[i].Build {
			n++
		}
		groups = append(groups, fmt.Sprintf("%d %s %s", n-i, daemons[i].Name, daemons[i].Build))
		f.OK = f.OK && daemons[i].Build == own
		i = n
	}
	if len(groups) > 0 {
		f.Detail += "; " + strings.Join(groups, ", ")
	}
	if !f.OK {
		f.Do = "use one version: stop persisters, replace them, start them"
	}
	return f
}
