package natsio

// What a connection is to those who use it: each role is a few methods over one part of the store, and what callers
// declare as an interface is one of them, or two. A role costs nothing to make, and is safe for concurrent use.

// Records is the record bucket: every fact that decides existence.
type Records struct{ c *Conn }

// Records is the role over the record bucket.
func (c *Conn) Records() Records { return Records{c} }

// Objects are the object buckets: the bytes that records name.
type Objects struct{ c *Conn }

// Objects is the role over the object buckets.
func (c *Conn) Objects() Objects { return Objects{c} }

// Inbox is the bucket of bodies that do not fit an event's message. The event carries a claim check.
type Inbox struct{ c *Conn }

// Inbox is the role over the inbox.
func (c *Conn) Inbox() Inbox { return Inbox{c} }

// Events is the stream of events: what agents publish, and a persister consumes by partitions.
type Events struct{ c *Conn }

// Events is the role over EVENTS.
func (c *Conn) Events() Events { return Events{c} }

// Items is the stream of items: what subscribers read, and a persister writes.
type Items struct{ c *Conn }

// Items is the role over ITEMS.
func (c *Conn) Items() Items { return Items{c} }

// DeadLetters is the stream of what could not be applied.
type DeadLetters struct{ c *Conn }

// DeadLetters is the role over DEAD.
func (c *Conn) DeadLetters() DeadLetters { return DeadLetters{c} }

// Outputs are streaming outputs: their parts, as they are kept, and their live frames, which nobody keeps.
type Outputs struct{ c *Conn }

// Outputs is the role over streaming outputs.
func (c *Conn) Outputs() Outputs { return Outputs{c} }

// Restore writes objects and records as another system had them.
type Restore struct{ c *Conn }

// Restore is the role of a restore.
func (c *Conn) Restore() Restore { return Restore{c} }

// Streams is what packages that build on the driver share with it. They speak to JetStream themselves (Conn.JetStream), and
// find here what is the same for all: who answers a read, how messages are sent, how many are read.
type Streams struct{ c *Conn }

// Streams is the role over streams of any name.
func (c *Conn) Streams() Streams { return Streams{c} }
