package natsio

// What a connection is to those who use it: each role is a few methods over one part of the store, and what callers
// declare as an interface is one of them, or two. A role costs nothing to make, and is safe for concurrent use.

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
