package record

import "io"

// Upload is an object that is written in pieces, in bounded memory: it exists for nobody until Commit has returned and a
// record names it. Exactly one of Commit and Abort is called, last. After an error of Write it can only be aborted.
type Upload interface {
	io.Writer
	// Commit returns when every byte is durable. The object's Sum is the hash of what was written.
	Commit() (Object, error)
	// Abort drops what was written; what stays after a crash here is gc's.
	Abort()
}
