package natsadmin

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"spool/internal/jsonscan"
	"spool/internal/natsio"
	"spool/pkg/events"
)

// readersQueue is the group of the processes that make consumers for readers: one of them answers.
const readersQueue = "spool-readers"

// readersAtATime bounds the requests that one process works on; more wait.
const readersAtATime = 64

// readerTimeout is how long the server has to make a consumer.
const readerTimeout = 5 * time.Second

// ServeReaders makes consumers for users who only read, until stop is called or the connection ends. Who makes a consumer says where
// it delivers, and the server delivers there whatever that user may publish to; so readers do not make theirs, but ask for one, in
// the words of JetStream's API, and get it if it is one that they pull from (readerConsumer).
func (a *Admin) ServeReaders() (stop func(), err error) {
	places := make(chan struct{}, readersAtATime)
	sub, err := a.nc.QueueSubscribe(events.ReaderRequests, readersQueue, func(m *nats.Msg) {
		if m.Reply == "" {
			return
		}
		places <- struct{}{}
		go func() {
			defer func() { <-places }()
			_ = m.Respond(a.makeReaderConsumer(m)) // a reader that is gone
		}()
	})
	if err != nil {
		return nil, fmt.Errorf("serve readers: %w", natsio.WrapErr(err))
	}
	return func() { _ = sub.Unsubscribe() }, nil // it ends with the connection at the latest
}

// makeReaderConsumer answers a request as JetStream would.
func (a *Admin) makeReaderConsumer(m *nats.Msg) []byte {
	request, err := readerConsumer(m.Subject, m.Data)
	if err != nil {
		return refusal(400, err)
	}
	prefix := strings.TrimSuffix(cmp.Or(a.js.Options().APIPrefix, "$JS.API."), ".")
	create := prefix + ".CONSUMER.CREATE." + strings.TrimPrefix(m.Subject, strings.TrimSuffix(events.ReaderRequests, ">"))
	answer, err := a.nc.Request(create, request, readerTimeout)
	if err != nil {
		return refusal(503, err)
	}
	return answer.Data
}

// refusal is an answer of JetStream's API that says no.
func refusal(code int, why error) []byte {
	const badRequest = 10003 // JetStream's own number for a request that it does not understand
	b, err := json.Marshal(map[string]any{
		"type":  "io.nats.jetstream.api.v1.consumer_create_response",
		"error": map[string]any{"code": code, "err_code": badRequest, "description": "spool: " + why.Error()},
	})
	if err != nil {
		return nil
	}
	return b
}

// What a reader's consumer may say of itself: everything about what is read and how, nothing about where it is sent or who is told.
var readerFields = []string{
	"name", "durable_name", "description", "metadata", "deliver_policy", "opt_start_seq", "opt_start_time", "replay_policy",
	"filter_subject", "filter_subjects", "headers_only", "ack_policy", "ack_wait", "max_deliver", "max_ack_pending", "max_waiting",
	"max_batch", "max_expires", "max_bytes", "inactive_threshold", "num_replicas", "mem_storage",
	"priority_groups", "priority_policy", "priority_timeout",
}

var errReader = errors.New("a reader may not make this consumer")

// readerConsumer checks a request for a consumer and writes it anew, so that nothing is in it that was not looked at: the server
// takes the names of fields in any case, and the last of several.
func readerConsumer(subject string, body []byte) ([]byte, error) {
	stream, name, ok := events.ParseReaderRequest(subject)
	if !ok || !slices.Contains(events.ReaderStreams, stream) {
		return nil, fmt.Errorf("%w: %s is not for readers", errReader, subject)
	}
	var request map[string]json.RawMessage
	if err := jsonscan.Decode(body, &request); err != nil {
		return nil, fmt.Errorf("%w: %w", errReader, err)
	}
	var cfg map[string]json.RawMessage
	for field, value := range request {
		switch field {
		case "stream_name", "action", "pedantic":
		case "config":
			if err := jsonscan.Decode(value, &cfg); err != nil {
				return nil, fmt.Errorf("%w: %w", errReader, err)
			}
		default:
			return nil, fmt.Errorf("%w: the request says %q", errReader, field)
		}
	}
	for field := range cfg {
		if !slices.Contains(readerFields, field) {
			return nil, fmt.Errorf("%w: it says %q", errReader, field)
		}
	}
	if err := checkReaderName(stream, name, cfg); err != nil {
		return nil, err
	}
	written, err := json.Marshal(cfg)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errReader, err)
	}
	request["config"] = written
	return json.Marshal(request)
}

// checkReaderName lets durable consumers be those of named subscriptions, under a name that nobody can guess, and no other take such
// a name.
func checkReaderName(stream, name string, cfg map[string]json.RawMessage) error {
	var durable string
	if v, ok := cfg["durable_name"]; ok {
		if err := jsonscan.Decode(v, &durable); err != nil {
			return fmt.Errorf("%w: %w", errReader, err)
		}
	}
	reader, tagged := events.ReaderDurable(name)
	switch {
	case durable == "" && reader:
		return fmt.Errorf("%w: %s is the name of a durable one", errReader, name)
	case durable != "" && (durable != name || stream != events.ItemsStream || !tagged):
		return fmt.Errorf("%w: a durable one of %s called %s: the names that subscriptions have are made by Spool's client",
			errReader, stream, name)
	}
	return nil
}
