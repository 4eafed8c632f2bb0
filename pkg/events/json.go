package events

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"

	"spool/internal/jsonscan"
)

// An envelope may be a JSON object instead of a msgpack array, for publishers that have no msgpack at hand: the first byte
// tells which (docs/protocol.md, "Envelope as JSON"). Session, thread and kind may be left out: Open takes them from the
// subject.

// isJSON reports whether an envelope or a chunk is JSON: neither begins with these bytes as msgpack.
func isJSON(b []byte) bool {
	if len(b) == 0 {
		return false
	}
	switch b[0] {
	case '{', ' ', '\t', '\r', '\n':
		return true
	}
	return false
}

var (
	errObject = errors.New("want a JSON object")
	errString = errors.New("want a string")
	errWhole  = errors.New("want a whole number that is not negative")
	errBase64 = errors.New("want base64, with padding")
)

// decodeJSON reads an envelope that is JSON. What it does not know it ignores, as Decode does.
func decodeJSON(b []byte) (e Event, err error) {
	if err := jsonscan.Valid(b); err != nil {
		return Event{}, fmt.Errorf("%w: %w", ErrEnvelope, err)
	}
	version, bodies := uint64(Version), 0
	err = members(b, func(key string, v []byte) error {
		switch key {
		case "v":
			return number(v, &version)
		case "producer":
			return text(v, &e.Producer)
		case "epoch":
			return number(v, &e.Epoch)
		case "seq":
			return number(v, &e.Seq)
		case "prev":
			return number(v, &e.Prev)
		case "kind":
			return kind(v, &e.Kind)
		case "dialect":
			return text(v, &e.Dialect)
		case "session":
			return text(v, &e.Thread.Session)
		case "thread":
			return text(v, &e.Thread.Name)
		case "time":
			e.Time, err = ParseTime(v)
			return err
		case "user":
			return text(v, &e.User)
		case "host":
			return text(v, &e.Host)
		case "file":
			return text(v, &e.File)
		case "trace":
			return text(v, &e.Trace)
		case "body", "body_base64":
			bodies++
			return payload(key, v, &e.Body)
		case "ref":
			bodies++
			return reference(v, &e.Ref)
		case "more":
			return further(v, &e.More)
		}
		return nil
	})
	if err == nil && version != Version {
		err = fmt.Errorf("version %d; this program reads version %d", version, Version)
	}
	if err == nil && bodies != 1 {
		err = fmt.Errorf("%d of body, body_base64 and ref; give one", bodies)
	}
	if err != nil {
		return Event{}, fmt.Errorf("%w: %w", ErrEnvelope, err)
	}
	return e, nil
}

// members calls f for the members of an object; its error says which.
func members(b []byte, f func(key string, value []byte) error) (err error) {
	if jsonscan.KindOf(b) != jsonscan.KindObject {
		return errObject
	}
	broken := jsonscan.Object(b, func(key, value []byte) bool {
		if jsonscan.KindOf(value) == jsonscan.KindNull {
			return true
		}
		if err = f(string(key), value); err != nil {
			err = fmt.Errorf("%s: %w", key, err)
		}
		return err == nil
	})
	return errors.Join(err, broken)
}

func text(v []byte, to *string) error {
	s, ok := jsonscan.Text(v)
	if !ok {
		return errString
	}
	*to = s
	return nil
}

func number(v []byte, to *uint64) error {
	n, ok := jsonscan.Int(v)
	if !ok || n < 0 {
		return errWhole
	}
	*to = uint64(n)
	return nil
}

func kind(v []byte, to *Kind) (err error) {
	s, ok := jsonscan.Text(v)
	if !ok {
		return errString
	}
	*to, err = parseKind(s)
	return err
}

// payload is the raw entry: a JSON value as it is spelled, a string's text, or bytes in base64.
func payload(key string, v []byte, to *[]byte) (err error) {
	s, ok := jsonscan.Text(v)
	switch {
	case key == "body" && !ok:
		*to = v
	case key == "body":
		*to = []byte(s)
	default:
		*to, err = base64.StdEncoding.DecodeString(s)
		if err != nil || !ok {
			err = errBase64
		}
	}
	return err
}

func reference(v []byte, to **BodyRef) error {
	ref, sum, size := &BodyRef{}, "", uint64(0)
	err := members(v, func(key string, v []byte) error {
		switch key {
		case "object":
			return text(v, &ref.Object)
		case "size":
			return number(v, &size)
		case "sha256":
			return text(v, &sum)
		}
		return nil
	})
	raw, bad := hex.DecodeString(sum)
	if err == nil && (bad != nil || len(raw) != len(ref.Sum) || ref.Object == "") {
		err = errors.New(`want {"object","size","sha256"}, the sum as 64 hexadecimal digits`)
	}
	ref.Size = int64(size)
	copy(ref.Sum[:], raw)
	*to = ref
	return err
}

func further(v []byte, to *[]Entry) (err error) {
	if jsonscan.KindOf(v) != jsonscan.KindArray {
		return errors.New("want an array")
	}
	broken := jsonscan.Array(v, func(v []byte) bool {
		var m Entry
		err = members(v, func(key string, v []byte) error {
			switch key {
			case "seq":
				return number(v, &m.Seq)
			case "time":
				m.Time, err = ParseTime(v)
				return err
			case "body", "body_base64":
				return payload(key, v, &m.Body)
			}
			return nil
		})
		if err == nil && m.Body == nil {
			err = errors.New("an entry without a body")
		}
		*to = append(*to, m)
		return err == nil
	})
	return errors.Join(err, broken)
}

// Open reads an envelope as EVENTS stores it under a subject, which alone says who was allowed to publish it. What a JSON
// envelope leaves out is the subject's; what it says must be. Thread and Kind are the subject's beside an error too, as far as
// it has any.
func Open(subject string, b []byte) (Event, error) {
	t, k, scope, err := parseStored(subject)
	if err != nil {
		return Event{Thread: t, Kind: k, Scope: scope}, err
	}
	e, err := Decode(b)
	said, saidKind := e.Thread, e.Kind
	e.Thread, e.Kind, e.Scope = t, k, scope
	e.Identify(scope.User())
	if err == nil {
		err = scope.Check(t.Session)
	}
	if err != nil {
		return e, err
	}
	if isJSON(b) {
		said.Session, said.Name = cmp.Or(said.Session, t.Session), cmp.Or(said.Name, t.Name)
		saidKind = cmp.Or(saidKind, k)
	}
	if said != t || saidKind != k {
		return e, fmt.Errorf("%w: it says %s %s and was published as %s %s", ErrEnvelope, said, saidKind, t, k)
	}
	return e, e.Validate()
}

// parseChunkJSON reads the body of a chunk event that is a JSON object.
func parseChunkJSON(b []byte) (c Chunk, err error) {
	if err := jsonscan.Valid(b); err != nil {
		return c, fmt.Errorf("%w: %w", ErrChunk, err)
	}
	var op, stream string
	var head, columns, lease, show, duration uint64
	err = members(b, func(key string, v []byte) error {
		switch key {
		case "op":
			return text(v, &op)
		case "output":
			return text(v, &c.Output)
		case "seq":
			return number(v, &c.Seq)
		case "stream":
			return text(v, &stream)
		case "text":
			return payload("body", v, &c.Data)
		case "bytes":
			return payload("body_base64", v, &c.Data)
		case "attempt":
			return text(v, &c.Attempt)
		case "tool":
			return text(v, &c.Start.Tool)
		case "invocation":
			return text(v, &c.Start.Invocation)
		case "cwd":
			return text(v, &c.Start.Cwd)
		case "agent":
			return text(v, &c.Start.Agent)
		case "run":
			return text(v, &c.Start.Run)
		case "head":
			return number(v, &head)
		case "columns":
			return number(v, &columns)
		case "lease":
			return number(v, &lease)
		case "show":
			return number(v, &show)
		case "keep":
			keep, ok := jsonscan.Bool(v)
			if c.Start.Keep = keep; !ok {
				return errors.New("want true or false")
			}
		case "exit_code":
			n, ok := jsonscan.Int(v)
			if c.End.ExitCode = int(n); !ok {
				return errors.New("want a whole number")
			}
		case "is_error":
			is, ok := jsonscan.Bool(v)
			if c.End.IsError = is; !ok {
				return errors.New("want true or false")
			}
		case "duration_ms":
			return number(v, &duration)
		case "reason":
			return text(v, &c.Reason)
		}
		return nil
	})
	c.Start.Head, c.Start.Columns, c.Start.Lease, c.End.DurationMS = int(head), int(columns), int64(lease), int64(duration)
	c.Start.Show = int(min(show, MaxShow+1))
	c.Op = map[string]ChunkOp{"start": ChunkStart, "data": ChunkData, "end": ChunkEnd, "abort": ChunkAbort}[op]
	c.Stream = map[string]Stream{"": Stdout, "stdout": Stdout, "stderr": Stderr}[stream]
	if err == nil && c.Op == 0 {
		err = fmt.Errorf("op %q: use start, data, end or abort", op)
	}
	if err == nil && c.Stream == 0 {
		err = fmt.Errorf("stream %q: use stdout or stderr", stream)
	}
	if err != nil {
		return c, fmt.Errorf("%w: %w", ErrChunk, err)
	}
	if c.Op == ChunkStart {
		c.Start.Attempt, c.Attempt = c.Attempt, ""
	}
	if c.Op != ChunkData {
		c.Stream, c.Data = 0, nil
	}
	return c, c.Validate()
}
