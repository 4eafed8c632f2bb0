package natsio_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/pkg/events"
)

// A reader begins anywhere, and tells at the end when the bytes are not those that were stored.
func TestObjectReader(t *testing.T) {
	c := natstest.Conn(t)
	text := []byte(strings.Repeat("0123456789", 200_000))
	o := must.Get(c.Objects().UploadFrom(t.Context(), events.ArtifactsBucket, "x", bytes.NewReader(text)))(t)
	r := c.Objects().OpenObject(t.Context(), o)
	for _, at := range []int64{1_999_990, 5, 0, 1_000_000} {
		must.Get(r.Seek(at, io.SeekStart))(t)
		got := make([]byte, 10)
		if _, err := io.ReadFull(r, got); err != nil || string(got) != string(text[at:at+10]) {
			t.Errorf("at %d: %q, %v, want %q", at, got, err, text[at:at+10])
		}
	}
	must.Get(r.Seek(7, io.SeekStart))(t)
	if rest, err := io.ReadAll(r); err != nil || !bytes.Equal(rest, text[7:]) {
		t.Errorf("from 7: %d bytes, %v", len(rest), err)
	}
	o.Sum[0] ^= 1
	must.Is(t, must.Err(io.ReadAll(c.Objects().OpenObject(t.Context(), o))), natsio.ErrDigest, "with another digest")
}
