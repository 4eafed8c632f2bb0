package natsio

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// sparse is a stream with messages at some sequences, a second apart for each.
type sparse struct {
	jetstream.Stream
	seqs []uint64
}

func (s sparse) CachedInfo() *jetstream.StreamInfo {
	return &jetstream.StreamInfo{State: jetstream.StreamState{FirstSeq: s.seqs[0], LastSeq: 30}}
}

func (s sparse) GetMsg(_ context.Context, seq uint64, _ ...jetstream.GetMsgOpt) (*jetstream.RawStreamMsg, error) {
	for _, at := range s.seqs {
		if at >= seq {
			return &jetstream.RawStreamMsg{Sequence: at, Time: time.Unix(int64(at), 0)}, nil
		}
	}
	return nil, jetstream.ErrMsgNotFound
}

func TestFirstSince(t *testing.T) {
	s := sparse{seqs: []uint64{3, 4, 9, 20}} // what was between, and up to 30, is removed
	for since, want := range map[int64]uint64{0: 3, 3: 3, 4: 4, 5: 9, 9: 9, 10: 20, 20: 20, 21: 31} {
		got, err := firstSince(t.Context(), s, time.Unix(since, 0))
		m, _ := s.GetMsg(t.Context(), got)
		if err != nil || want <= 30 && m.Sequence != want || want > 30 && m != nil {
			t.Errorf("firstSince(%d) = %d, %v, want the message %d", since, got, err, want)
		}
	}
}
