package natsio_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/pkg/events"
)

// removing is a stream of which something is removed once a consumer of it stands.
type removing struct {
	jetstream.Stream
	remove func()
}

func (r removing) OrderedConsumer(ctx context.Context, cfg jetstream.OrderedConsumerConfig) (jetstream.Consumer, error) {
	cons, err := r.Stream.OrderedConsumer(ctx, cfg)
	r.remove()
	return cons, err
}

// TestListingBesideRemovals: a bucket is listed to its end while objects of it are removed that the server had chosen to give.
func TestListingBesideRemovals(t *testing.T) {
	c, ctx := natstest.Conn(t), t.Context()
	s := must.Get(c.JetStream().Stream(ctx, events.ObjectStream(events.NodesBucket)))(t)
	for _, gone := range [][]int{{1}, {0, 3, 4, 6}, {5, 6, 7}} {
		var all []record.Object
		for i := range 8 {
			o := must.Get(c.Objects().Upload(ctx, events.NodesBucket, fmt.Sprint("object", i), [][]byte{{1}, {2}, {3}}))(t)
			all = append(all, o)
		}
		beside := removing{s, func() {
			for _, i := range gone {
				must.Do(t, c.Objects().Reclaim(ctx, all[i]))
			}
		}}
		listed := map[string]bool{}
		err := natsio.LastOfEach(c.Objects(), ctx, beside, "$O."+events.NodesBucket+".C.>", true,
			func(m jetstream.Msg, _ *jetstream.MsgMetadata) error {
				listed[m.Subject()] = true
				return nil
			})
		must.Do(t, err)
		for i, o := range all {
			if subject := natsio.ChunkSubject(o.Bucket, o.NUID); !slices.Contains(gone, i) && !listed[subject] {
				t.Errorf("without %v: object %d is not listed", gone, i)
			}
			must.Do(t, c.Objects().Reclaim(ctx, o))
		}
	}
}
