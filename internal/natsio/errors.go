package natsio

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/family"
	"spool/internal/jsonscan"
	"spool/internal/record"
)

// JetStream error codes that have a meaning of their own here; nats.go names none of these.
const (
	codeFull        = 10077 // maximum bytes exceeded
	codeFullMsgs    = 10047 // insufficient storage resources
	codeResources   = 10023 // insufficient resources
	codeWrongSeq    = 10071 // wrong last sequence
	codeInFlight    = 10164 // another write with the same expectation is in flight
	codeTooMany     = 10167 // too many requests
	codeBatchMax    = 10210 // too many batches in flight on the stream
	codeBatchMaxAll = 10211 // too many batches in flight on the server
	codeIncomplete  = 10176 // a batch that the server gave up, or never saw from its beginning
	codeBatchLost   = 10208 // the end of a fast batch whose beginning another server took, or a stream that is gone
	codeNoMessage   = 10037
	codeNoStream    = 10059
)

type apiError struct {
	Code        int    `json:"code"`
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
}

// readError reads an error; nil is none. What is no object is an error of its own.
func readError(raw []byte) (*apiError, error) {
	if jsonscan.KindOf(raw) == jsonscan.KindNull {
		return nil, nil //nolint:nilnil // as encoding/json reads it
	}
	e := &apiError{}
	err := jsonscan.Object(raw, func(key, value []byte) bool {
		switch string(key) {
		case "code":
			n, _ := jsonscan.Int(value)
			e.Code = int(n)
		case "err_code":
			n, _ := jsonscan.Int(value)
			e.ErrCode = int(n)
		case "description":
			e.Description, _ = jsonscan.Text(value)
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	return e, nil
}

func (e *apiError) verdict() error {
	switch {
	case e.ErrCode == codeWrongSeq:
		return record.ErrConflict
	case e.ErrCode == codeFull, e.ErrCode == codeFullMsgs, e.ErrCode == codeResources:
		return record.ErrFull
	case e.ErrCode == codeInFlight, e.ErrCode == codeTooMany, e.ErrCode == codeBatchMax, e.ErrCode == codeBatchMaxAll,
		e.ErrCode == codeIncomplete, e.ErrCode == codeBatchLost,
		e.Code == 429, e.Code == 503:
		return record.ErrBusy
	case e.ErrCode == codeNoStream:
		return errNoStream
	case e.ErrCode == codeNoMessage, e.Code == 404:
		return record.ErrNotFound
	}
	return record.ErrRefused
}

func (e *apiError) wrap() error {
	if e.ErrCode == codeNoStream {
		return errNoStream
	}
	return fmt.Errorf("%w: %s (%d)", e.verdict(), e.Description, e.ErrCode)
}

// ack is the answer to a publish.
type ack struct {
	Error *apiError
	Seq   uint64
	Count int // messages of a batch
}

func parseAck(m *nats.Msg) (ack, error) {
	var a ack
	if m.Header.Get("Status") == "503" {
		return a, fmt.Errorf("%w: nothing listens on the subject: is JetStream enabled and the stream there?", record.ErrBusy)
	}
	// Acks come one a message: reading their few members is worth more than reading them by reflection.
	err := jsonscan.Object(m.Data, func(key, value []byte) bool {
		switch string(key) {
		case "seq":
			n, _ := jsonscan.Int(value)
			a.Seq = uint64(n)
		case "count":
			n, _ := jsonscan.Int(value)
			a.Count = int(n)
		case "error":
			a.Error, _ = readError(value)
			return a.Error != nil
		}
		return true
	})
	if err != nil || a.Seq == 0 && a.Error == nil {
		return a, fmt.Errorf("%w: ack %q", record.ErrUnknown, m.Data)
	}
	if a.Error != nil {
		return a, a.Error.wrap()
	}
	return a, nil
}

// errAway: nats.go keeps nothing for a server that is away, and calls that a full buffer. No subject is in it:
// whoever tries again says a reason once.
var errAway = errors.New("the connection to the server is lost, and not made again yet")

// unsent is why a message was not sent over a connection. What that means for the call is verdict, or large if the message is too large.
func unsent(nc *nats.Conn, m *nats.Msg, err, verdict, large error) error {
	switch {
	case errors.Is(err, nats.ErrReconnectBufExceeded):
		if why := nc.LastError(); lockedOut(why) {
			return fmt.Errorf("%w: %w: %w", verdict, errAway, why)
		}
		return fmt.Errorf("%w: %w", verdict, errAway)
	case errors.Is(err, nats.ErrConnectionClosed):
		return errClosed
	case errors.Is(err, nats.ErrMaxPayload):
		verdict = large
	}
	return fmt.Errorf("%w: publish %s: %w", verdict, m.Subject, err)
}

// errClosed: the connection was closed, here, for good. What was asked before and is asked again may have been stored.
var errClosed = fmt.Errorf("%w: the connection is %w", record.ErrUnknown, record.ErrClosed)

// errNoStream: the server has no stream of that name, as before the first start of a persister.
var errNoStream error = noStream{}

type noStream struct{}

func (noStream) Error() string {
	return "there is no such stream; spool up or a persister makes those of a new system, and spool doctor says which are missing"
}

func (noStream) Is(target error) bool {
	return slices.Contains([]error{record.ErrNoStream, family.Unavailable, record.ErrNotFound, jetstream.ErrStreamNotFound}, target)
}

// WrapErr maps what nats.go returns to the errors of package record.
func WrapErr(err error) error {
	var api *jetstream.APIError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, record.ErrBusy), errors.Is(err, record.ErrConflict), errors.Is(err, record.ErrFull), errors.Is(err, record.ErrUnknown),
		errors.Is(err, record.ErrRefused), errors.Is(err, record.ErrNotFound):
		return err
	case errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, jetstream.ErrConnectionClosed):
		return errClosed
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return errNoStream
	case errors.Is(err, jetstream.ErrMsgNotFound), errors.Is(err, jetstream.ErrConsumerNotFound):
		return fmt.Errorf("%w: %w", record.ErrNotFound, err)
	case errors.As(err, &api):
		e := apiError{Code: api.Code, ErrCode: int(api.ErrorCode), Description: api.Description}
		return e.wrap()
	case errors.Is(err, nats.ErrReconnectBufExceeded):
		return fmt.Errorf("%w: %w", record.ErrBusy, errAway)
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrNoStreamResponse):
		return fmt.Errorf("%w: %w", record.ErrBusy, err)
	case errors.Is(err, nats.ErrPermissionViolation):
		subject, _, _ := refused(err)
		return fmt.Errorf("%w: subscribe to %s: %s", record.ErrDenied, subject, askForIt)
	case errors.Is(err, context.Canceled):
		return err
	}
	return fmt.Errorf("%w: %w", record.ErrUnknown, err)
}
