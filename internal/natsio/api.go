package natsio

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// api is JetStream as nats.go has it, with requests that end when the server refuses them (denials): by themselves they
// would wait for an answer until their time is over. What it does not name here is nats.go's own.
type api struct {
	jetstream.JetStream
	denied *denials
}

// ask runs a request. Its subjects are those of JetStream's API, as they begin: what a user may not send is one of
// them. It ends when its caller's context does, and with its own time: its answer is lost with the connection that
// it went by, and a caller that gives a long work its time waits for none so long. What changes nothing is asked again by who is Patient.
func ask[T any](ctx context.Context, d *denials, f func(context.Context) (T, error), subjects ...string) (T, error) {
	once := func(ctx context.Context) (T, error) { return askOnce(ctx, d, f, subjects) }
	if changesNothing.MatchString(subjects[0]) {
		return untilAnswered(ctx, d, once, subjects[0])
	}
	return once(ctx)
}

// changesNothing matches the requests that only read.
var changesNothing = regexp.MustCompile(`^(STREAM\.)?(INFO|MSG\.GET)\b`)

func askOnce[T any](ctx context.Context, d *denials, f func(context.Context) (T, error), subjects []string) (v T, err error) {
	ctx, done, err := d.watch(ctx, func(subject string) bool { return asks(subject, subjects) })
	if err != nil {
		return v, err
	}
	defer done()
	end, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	v, err = f(end)
	return v, outcome(ctx, err)
}

// untilAnswered asks for a reader who is Patient until there is an answer.
func untilAnswered[T any](ctx context.Context, d *denials, f func(context.Context) (T, error), what string) (v T, err error) {
	waited := d.patience(ctx).once(ctx, what, func() error {
		v, err = f(ctx)
		return WrapErr(err)
	})
	return v, cmp.Or(err, waited)
}

// asks reports whether a subject is one of the API's that begin so, with whole tokens.
func asks(subject string, subjects []string) bool {
	_, request, ok := strings.Cut(subject, ".API.") // in a domain its name stands between "$JS" and "API"
	for _, s := range subjects {
		rest, begins := strings.CutPrefix(request, s)
		if ok && begins && (rest == "" || rest[0] == '.') {
			return true
		}
	}
	return false
}

// do is ask for a request that answers nothing but whether it was done.
func do(ctx context.Context, d *denials, f func(context.Context) error, subject string) error {
	_, err := ask(ctx, d, func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) }, subject)
	return err
}

// with1 and with2 are calls that lack only their context.
func with1[A, T any](f func(context.Context, A) (T, error), a A) func(context.Context) (T, error) {
	return func(ctx context.Context) (T, error) { return f(ctx, a) }
}

func with2[A, B, T any](f func(context.Context, A, B) (T, error), a A, b B) func(context.Context) (T, error) {
	return func(ctx context.Context) (T, error) { return f(ctx, a, b) }
}

// stream is ask for what answers with a stream.
func (a api) stream(
	ctx context.Context, f func(context.Context) (jetstream.Stream, error), subject, name string,
) (jetstream.Stream, error) {
	s, err := ask(ctx, a.denied, f, subject+name)
	if err != nil {
		return nil, err
	}
	return apiStream{s, name, a.JetStream, a.denied}, nil
}

func (a api) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	return a.stream(ctx, with1(a.JetStream.Stream, name), "STREAM.INFO.", name)
}

func (a api) CreateStream(ctx context.Context, cfg jetstream.StreamConfig) (jetstream.Stream, error) {
	return a.stream(ctx, with1(a.JetStream.CreateStream, cfg), "STREAM.CREATE.", cfg.Name)
}

func (a api) UpdateStream(ctx context.Context, cfg jetstream.StreamConfig) (jetstream.Stream, error) {
	return a.stream(ctx, with1(a.JetStream.UpdateStream, cfg), "STREAM.UPDATE.", cfg.Name)
}

func (a api) AccountInfo(ctx context.Context) (*jetstream.AccountInfo, error) {
	return ask(ctx, a.denied, a.JetStream.AccountInfo, "INFO")
}

// consumer is ask for what answers with a consumer.
func consumer(
	ctx context.Context, d *denials, stream string, f func(context.Context) (jetstream.Consumer, error), subject string,
) (jetstream.Consumer, error) {
	c, err := ask(ctx, d, f, subject)
	if err != nil {
		return nil, err
	}
	return apiConsumer{c, stream, d}, nil
}

func (a api) Consumer(ctx context.Context, stream, name string) (jetstream.Consumer, error) {
	return consumer(ctx, a.denied, stream, with2(a.JetStream.Consumer, stream, name), "CONSUMER.INFO."+stream+"."+name)
}

func (a api) CreateConsumer(
	ctx context.Context, stream string, cfg jetstream.ConsumerConfig,
) (jetstream.Consumer, error) {
	return consumer(ctx, a.denied, stream, with2(a.JetStream.CreateConsumer, stream, cfg), "CONSUMER.CREATE."+stream)
}

func (a api) CreateOrUpdateConsumer(
	ctx context.Context, stream string, cfg jetstream.ConsumerConfig,
) (jetstream.Consumer, error) {
	f := with2(a.JetStream.CreateOrUpdateConsumer, stream, cfg)
	return consumer(ctx, a.denied, stream, f, "CONSUMER.CREATE."+stream)
}

func (a api) OrderedConsumer(
	ctx context.Context, stream string, cfg jetstream.OrderedConsumerConfig,
) (jetstream.Consumer, error) {
	return untilAnswered(ctx, a.denied, func(ctx context.Context) (jetstream.Consumer, error) {
		return ordered(ctx, a.denied, a.JetStream, stream, with2(a.JetStream.OrderedConsumer, stream, cfg))
	}, stream)
}

// again is OrderedConsumer for one that reads on.
func (a api) again(ctx context.Context, stream string, cfg jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	return ordered(ctx, a.denied, a.JetStream, stream, with2(a.JetStream.CreateOrUpdateConsumer, stream, cfg))
}

// ordered is consumer for one that is read at once: its server is asked until it answers to what is pulled. In a cluster the word that a
// consumer stands and the word where its pulls go travel over routes of their own (the system account's and its account's). A pull that is
// between the two is lost without an answer, and nats.go misses it half a minute later.
func ordered(
	ctx context.Context, d *denials, js jetstream.JetStream, stream string, f func(context.Context) (jetstream.Consumer, error),
) (jetstream.Consumer, error) {
	c, err := consumer(ctx, d, stream, f, "CONSUMER.CREATE."+stream)
	if err != nil || js.Conn().ConnectedClusterName() == "" {
		return c, err
	}
	ctx, cancel := context.WithTimeout(ctx, d.timeout) // its server may be gone, and it too
	defer cancel()
	next := "CONSUMER.MSG.NEXT." + stream + "." + c.CachedInfo().Name
	return ask(ctx, d, func(ctx context.Context) (jetstream.Consumer, error) {
		for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
			try, cancel := context.WithTimeout(ctx, wait)
			_, err := js.Conn().RequestWithContext(try, apiSubject(js, next), noPull)
			if err != nil && try.Err() == nil { // nobody knows of it yet, or the connection is lost
				<-try.Done()
			}
			cancel()
			if err == nil || ctx.Err() != nil {
				return c, err
			}
		}
	}, next)
}

// noPull is no valid pull: the server of a consumer refuses it and gives nothing.
var noPull = []byte(`{"batch":"none"}`)

func (a api) DeleteConsumer(ctx context.Context, stream, name string) error {
	f := func(ctx context.Context) error { return a.JetStream.DeleteConsumer(ctx, stream, name) }
	return do(ctx, a.denied, f, "CONSUMER.DELETE."+stream+"."+name)
}

func (a api) ResetConsumer(ctx context.Context, stream, name string) (*jetstream.ConsumerResetResponse, error) {
	return ask(ctx, a.denied, with2(a.JetStream.ResetConsumer, stream, name), "CONSUMER.RESET."+stream+"."+name)
}

func (a api) ResetConsumerToSequence(
	ctx context.Context, stream, name string, seq uint64,
) (*jetstream.ConsumerResetResponse, error) {
	f := func(ctx context.Context) (*jetstream.ConsumerResetResponse, error) {
		return a.JetStream.ResetConsumerToSequence(ctx, stream, name, seq)
	}
	return ask(ctx, a.denied, f, "CONSUMER.RESET."+stream+"."+name)
}

// apiSubject is where a request to JetStream's API goes, with the domain's prefix when there is one.
func apiSubject(js jetstream.JetStream, request string) string {
	return strings.TrimSuffix(cmp.Or(js.Options().APIPrefix, jetstream.DefaultAPIPrefix), ".") + "." + request
}

// apiStream is a stream of api.
type apiStream struct {
	jetstream.Stream
	name   string
	js     jetstream.JetStream
	denied *denials
}

func (s apiStream) Info(ctx context.Context, opts ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	f := func(ctx context.Context) (*jetstream.StreamInfo, error) { return s.Stream.Info(ctx, opts...) }
	return ask(ctx, s.denied, f, "STREAM.INFO."+s.name)
}

func (s apiStream) GetMsg(ctx context.Context, seq uint64, opts ...jetstream.GetMsgOpt) (*jetstream.RawStreamMsg, error) {
	f := func(ctx context.Context) (*jetstream.RawStreamMsg, error) {
		m, err := s.Stream.GetMsg(ctx, seq, opts...)
		if errors.Is(err, nats.ErrBadHeaderMsg) { // whoever publishes writes what he likes
			return s.unheaded(ctx, seq, opts)
		}
		return m, err
	}
	return s.message(ctx, f)
}

// message is ask for a message.
func (s apiStream) message(ctx context.Context, f func(context.Context) (*jetstream.RawStreamMsg, error)) (*jetstream.RawStreamMsg, error) {
	return ask(ctx, s.denied, f, "STREAM.MSG.GET."+s.name, "DIRECT.GET."+s.name)
}

func (s apiStream) GetLastMsgForSubject(ctx context.Context, subject string) (*jetstream.RawStreamMsg, error) {
	return s.message(ctx, with1(s.Stream.GetLastMsgForSubject, subject))
}

// unheaded is GetMsg without the headers.
func (s apiStream) unheaded(ctx context.Context, seq uint64, opts []jetstream.GetMsgOpt) (*jetstream.RawStreamMsg, error) {
	request, err := wanted(opts)
	if err != nil {
		return nil, err
	}
	request["seq"] = seq
	body, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	answer, err := s.js.Conn().RequestWithContext(ctx, apiSubject(s.js, "STREAM.MSG.GET."+s.name), body)
	if err != nil {
		return nil, err
	}
	m, err := parseNewest(answer)
	if err == nil && m.Seq == 0 {
		err = jetstream.ErrMsgNotFound
	}
	return &jetstream.RawStreamMsg{Subject: m.Subject, Sequence: m.Seq, Data: m.Data, Time: m.Time}, err
}

// wanted is what options put into a request for a message. nats.go does not name its type.
func wanted[R any, O ~func(*R) error](opts []O) (members map[string]any, err error) {
	var r R
	for _, set := range opts {
		err = errors.Join(err, set(&r))
	}
	body, failed := json.Marshal(r)
	return members, errors.Join(err, failed, json.Unmarshal(body, &members))
}

func (s apiStream) DeleteMsg(ctx context.Context, seq uint64) error {
	f := func(ctx context.Context) error { return s.Stream.DeleteMsg(ctx, seq) }
	return do(ctx, s.denied, f, "STREAM.MSG.DELETE."+s.name)
}

func (s apiStream) SecureDeleteMsg(ctx context.Context, seq uint64) error {
	f := func(ctx context.Context) error { return s.Stream.SecureDeleteMsg(ctx, seq) }
	return do(ctx, s.denied, f, "STREAM.MSG.DELETE."+s.name)
}

func (s apiStream) Purge(ctx context.Context, opts ...jetstream.StreamPurgeOpt) error {
	f := func(ctx context.Context) error { return s.Stream.Purge(ctx, opts...) }
	return do(ctx, s.denied, f, "STREAM.PURGE."+s.name)
}

func (s apiStream) CreateConsumer(ctx context.Context, cfg jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	return consumer(ctx, s.denied, s.name, with1(s.Stream.CreateConsumer, cfg), "CONSUMER.CREATE."+s.name)
}

func (s apiStream) OrderedConsumer(
	ctx context.Context, cfg jetstream.OrderedConsumerConfig,
) (jetstream.Consumer, error) {
	return untilAnswered(ctx, s.denied, func(ctx context.Context) (jetstream.Consumer, error) {
		return ordered(ctx, s.denied, s.js, s.name, with1(s.Stream.OrderedConsumer, cfg))
	}, s.name)
}

func (s apiStream) DeleteConsumer(ctx context.Context, name string) error {
	f := func(ctx context.Context) error { return s.Stream.DeleteConsumer(ctx, name) }
	return do(ctx, s.denied, f, "CONSUMER.DELETE."+s.name+"."+name)
}

func (s apiStream) UnpinConsumer(ctx context.Context, name, group string) error {
	f := func(ctx context.Context) error { return s.Stream.UnpinConsumer(ctx, name, group) }
	return do(ctx, s.denied, f, "CONSUMER.UNPIN."+s.name+"."+name)
}

func (s apiStream) ListConsumers(ctx context.Context) jetstream.ConsumerInfoLister {
	ctx, done, err := s.denied.watch(ctx, func(subject string) bool {
		return asks(subject, []string{"CONSUMER.LIST." + s.name})
	})
	if err != nil {
		return apiList{err: err}
	}
	return apiList{ConsumerInfoLister: s.Stream.ListConsumers(ctx), ctx: ctx, done: done}
}

// apiList is a list of consumers. Its error must be asked for, once all of it was read.
type apiList struct {
	jetstream.ConsumerInfoLister
	ctx  context.Context //nolint:containedctx // of the list, while it is read
	done func()
	err  error
}

func (l apiList) Info() <-chan *jetstream.ConsumerInfo {
	if l.err == nil {
		return l.ConsumerInfoLister.Info()
	}
	none := make(chan *jetstream.ConsumerInfo)
	close(none)
	return none
}

func (l apiList) Err() error {
	if l.err != nil {
		return l.err
	}
	defer l.done()
	return outcome(l.ctx, l.ConsumerInfoLister.Err())
}

// apiConsumer is a consumer of api.
type apiConsumer struct {
	jetstream.Consumer
	stream string
	denied *denials
}

func (c apiConsumer) Info(ctx context.Context) (*jetstream.ConsumerInfo, error) {
	return ask(ctx, c.denied, c.Consumer.Info, "CONSUMER.INFO."+c.stream)
}

func (c apiConsumer) Messages(opts ...jetstream.PullMessagesOpt) (jetstream.MessagesContext, error) {
	ctx, done, err := c.denied.watchAs(context.Background(), &waiter{lasts: true, sends: func(subject string) bool {
		return asks(subject, []string{"CONSUMER.MSG.NEXT." + c.stream + "." + c.CachedInfo().Name})
	}})
	if err != nil {
		return nil, err
	}
	it, err := c.Consumer.Messages(opts...)
	if err != nil {
		done()
		return nil, err
	}
	unstop := context.AfterFunc(ctx, it.Stop)
	return apiMessages{it, ctx, func() { unstop(); done() }}, nil
}

// apiMessages are messages of api. Whoever reads them must stop them.
type apiMessages struct {
	jetstream.MessagesContext
	ctx  context.Context //nolint:containedctx // it ends when the server refuses to give more
	done func()
}

func (m apiMessages) Next(opts ...jetstream.NextOpt) (jetstream.Msg, error) {
	msg, err := m.MessagesContext.Next(opts...)
	return msg, outcome(m.ctx, err)
}

func (m apiMessages) Stop() {
	m.done()
	m.MessagesContext.Stop()
}
