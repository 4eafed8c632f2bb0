package client

import (
	"context"

	"spool/pkg/events"
	"spool/pkg/threads"
)

// Thread is a handle of a thread, whether it is there or not: it costs nothing, and nothing is asked before one of its methods is called.
func (c *Client) Thread(t events.Thread) ThreadHandle { return ThreadHandle{t, c} }

// ThreadHandle reads, changes and follows one thread. Safe for concurrent use.
type ThreadHandle struct {
	events.Thread
	c *Client
}

// Session is a handle of a session, whether it is there or not: it costs nothing, and nothing is asked before one of its methods is called.
func (c *Client) Session(id string) SessionHandle { return SessionHandle{id, c} }

// EverySession is the handle whose Threads, HeadsSince, Artifacts, Prompts, Runs, RunEnds, Outputs and DeadLetters are those of all
// sessions. It is that of the empty id; what is done to one session refuses it.
func (c *Client) EverySession() SessionHandle { return c.Session("") }

// SessionHandle reads and changes one session. Safe for concurrent use.
type SessionHandle struct {
	ID string
	c  *Client
}

// Artifacts is the handle of the artifacts of all sessions.
func (c *Client) Artifacts() ArtifactStore { return ArtifactStore{c} }

// ArtifactStore stores, reads and removes artifacts; SessionHandle.Artifacts lists them. Safe for concurrent use.
type ArtifactStore struct{ c *Client }

// Admin is the handle of what operators do.
func (c *Client) Admin() Admin { return Admin{c} }

// Admin mends and erases. Who may do so is in docs/permissions.md. Safe for concurrent use.
type Admin struct{ c *Client }

// Internal is the handle of what only this repository's other packages use: it may change or go with any version.
func (c *Client) Internal() Internal { return Internal{c} }

// Internal has what importers, the HTTP side and the commands need beyond what other programs do. Nothing in it is promised.
type Internal struct{ c *Client }

// An importer of transcripts takes a thread by its name (internal/transcript.Threads).

// Thread is ThreadHandle.Head.
func (i Internal) Thread(ctx context.Context, t events.Thread) (threads.Head, error) {
	return i.c.Thread(t).Head(ctx)
}

// Await is ThreadHandle.Await.
func (i Internal) Await(ctx context.Context, t events.Thread, producer string, epoch, seq uint64) error {
	return i.c.Thread(t).Await(ctx, producer, epoch, seq)
}

// Applied is Ack.Applied for an ack that another process has: of what a producer published to a thread, from one sequence to another.
func (i Internal) Applied(ctx context.Context, t events.Thread, producer string, epoch, first, last uint64) error {
	return i.c.taken(ctx, waited{t, producer, epoch, first, last, true})
}

// Settled is ThreadHandle.Settled.
func (i Internal) Settled(ctx context.Context, t events.Thread) error {
	return i.c.Thread(t).Settled(ctx)
}
