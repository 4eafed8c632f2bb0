package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// object is a JSON object whose members keep their order.
type object []any

// o makes an object of names and values in turn.
func o(namesAndValues ...any) object { return namesAndValues }

// MarshalJSON writes the members in order.
func (ob object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i := 0; i+1 < len(ob); i += 2 {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(encode(ob[i]))
		b.WriteByte(':')
		b.Write(encode(ob[i+1]))
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// list is a JSON array.
type list []any

// encode is v as JavaScript would print it: <, > and & as they are.
func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // strings, numbers and objects of them always encode
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// file collects lines; its clock starts at a fixed time and moves when told.
type file struct {
	out bytes.Buffer
	now time.Time
	n   int
}

func (f *file) line(v any) {
	f.out.Write(encode(v))
	f.out.WriteByte('\n')
}

func (f *file) after(d time.Duration) { f.now = f.now.Add(d) }

func (f *file) stamp() string { return f.now.UTC().Format("2006-01-02T15:04:05.000Z") }

// digest is hex that looks random and is the same on every run.
func digest(parts ...any) string {
	sum := sha256.Sum256([]byte(fmt.Sprintln(parts...)))
	return hex.EncodeToString(sum[:])
}

// uuid is a random-looking identifier of version 4.
func uuid(parts ...any) string {
	h := digest(parts...)
	return h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-a" + h[17:20] + "-" + h[20:32]
}

// opaque is n bytes that only the provider can read, as base64.
func opaque(n int, parts ...any) string {
	var b []byte
	for i := 0; len(b) < n; i++ {
		sum := sha256.Sum256([]byte(fmt.Sprintln(append(parts, i)...)))
		b = append(b, sum[:]...)
	}
	return base64.StdEncoding.EncodeToString(b[:n])
}
