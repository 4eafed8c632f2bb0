package natsio_test

import (
	"reflect"
	"testing"

	"spool/internal/natsio"
)

// A connection connects; what is done over it is a role's, and a role is small enough to be known as a whole.
func TestRolesStaySmall(t *testing.T) {
	for _, role := range []struct {
		of   any
		most int
	}{
		{(*natsio.Conn)(nil), 20},
		{natsio.Records{}, 16}, {natsio.Objects{}, 12}, {natsio.Inbox{}, 4}, {natsio.Events{}, 10}, {natsio.Items{}, 12},
		{natsio.DeadLetters{}, 8}, {natsio.Outputs{}, 8}, {natsio.Restore{}, 4}, {natsio.Streams{}, 8},
	} {
		typ := reflect.TypeOf(role.of)
		if n := typ.NumMethod(); n == 0 || n > role.most {
			t.Errorf("%v has %d exported methods, want 1 to %d: is there a role that a new one belongs to?", typ, n, role.most)
		}
	}
}
