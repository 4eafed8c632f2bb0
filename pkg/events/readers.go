package events

import (
	"encoding/hex"
	"strings"
)

// ReaderConsumer is the durable consumer of a subscription to items that has a name. Who knows a consumer's name may use it, so the
// tag is what nobody but its user can work out; "" where everybody is let in. No name of a subscription has a "=" in
// it.
func ReaderConsumer(name, tag string) string {
	if tag != "" {
		tag = "_" + tag
	}
	return readerPrefix + "=" + name + tag
}

const readerPrefix = "reader_"

// ReaderTag is how many bytes the tag of a ReaderConsumer has.
const ReaderTag = 32

// ReaderDurable reports whether a consumer's name is that of a ReaderConsumer, and whether it has a tag.
func ReaderDurable(name string) (ok, tagged bool) {
	rest, ok := strings.CutPrefix(name, readerPrefix)
	at := len(rest) - ReaderTag
	if !ok || at < 2 || rest[at-1] != '_' {
		return ok, false
	}
	_, err := hex.DecodeString(rest[at:])
	return true, err == nil
}

// ReaderStreams are those that hold what a reader may read.
var ReaderStreams = []string{
	ItemsStream, RecordsStream, ObjectStream(NodesBucket), ObjectStream(BlobsBucket), ObjectStream(ArtifactsBucket),
}

// ReaderRequest is where a reader's request for a consumer of a stream arrives: spool.v1.reader.create.<stream>.<consumer>[.<filter>].
func ReaderRequest(stream string) string { return root + "reader.create." + stream + ".>" }

// ParseReaderRequest splits the subject of such a request; what is behind the stream is as in $JS.API.CONSUMER.CREATE.
func ParseReaderRequest(subject string) (stream, consumer string, ok bool) {
	rest, ok := strings.CutPrefix(subject, root+"reader.create.")
	parts := strings.SplitN(rest, ".", 3)
	if !ok || len(parts) < 2 {
		return "", "", false
	}
	return parts[0], parts[1], true
}

// ReadersGroup is the priority group in which processes share a named subscription: one of them is pinned.
const ReadersGroup = "reader"
