package natsio_test

import (
	"fmt"
	"testing"
	"time"

	"spool/internal/memjs"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/record"
)

// A server that pauses near the end of what is read is waited for as anywhere else: the time that it is away is none in which records are
// written without a pause.
func TestLongReadersWaitNearTheEnd(t *testing.T) {
	memjs.Bubble(t, func(t *testing.T) {
		s := memjs.New(memjs.Config{})
		defer s.Close()
		writer := must.Get(natsio.Dial(t.Context(), natsio.Config{InProcess: s}))(t)
		defer writer.Close()
		must.Do(t, writer.Ensure(t.Context(), natsio.Limits{}))
		write := func(i int) {
			t.Helper()
			put := record.Put{Key: fmt.Sprintf("label.%04d", i), Value: []byte("x"), Expect: record.Any}
			must.Get(writer.Records().Write(t.Context(), put))(t)
		}
		write(0)
		c := must.Get(natsio.Dial(t.Context(), natsio.Config{InProcess: s.Process("reader")}))(t)
		defer c.Close()
		n := 0
		_, err := c.Records().Scan(natsio.Patient(t.Context()), 1, func(r record.Stamped) error {
			if r.Key != fmt.Sprintf("label.%04d", n) {
				return nil
			}
			if n++; n < 4 {
				write(n)
			}
			if n == 3 {
				s.Freeze("reader")
				time.AfterFunc(2*time.Minute, func() { s.Thaw("reader") })
			}
			return nil
		})
		if err != nil || n != 4 {
			t.Errorf("read %d of 4 records: %v", n, err)
		}
	})
}
