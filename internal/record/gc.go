package record

import "time"

// What a collector is told of the store (DESIGN 9). Ages are by the server's clock; they delay, and never decide what is garbage.

// Stamped is a record with its age.
type Stamped struct {
	Record
	Age time.Duration
}

// Stored is what an object bucket holds under one token, whether a record names it or not.
type Stored struct {
	Object Object        // Bucket and NUID; Name and Size too, unless its meta message is missing
	Last   uint64        // stream sequence of its newest message
	Age    time.Duration // of that message
}

// Claims is what events that may not be applied yet, and dead letters, hold on to.
type Claims struct {
	Bodies map[string]bool // names in the inbox
	Blobs  map[string]bool // refs that entries mention, as text
}
