package memjs

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats-server/v2/server"

	"spool/internal/jsonscan"
)

// apiCall is a request to the JetStream API. Its name is the subject without "$JS.API." and the names of stream and
// consumer, which are in args.
type apiCall struct {
	s     *Server
	kind  string // of the answer
	args  []string
	reply string
	hdr   []byte
	body  []byte
}

// apiCalls are the requests that are answered, by the beginning of their subject, the longer before the shorter.
var apiCalls = []struct {
	name string
	args int    // that follow at least
	kind string // of the answer
	do   func(c *apiCall)
}{
	{"INFO", 0, server.JSApiAccountInfoResponseType, (*apiCall).accountInfo},
	{"STREAM.NAMES", 0, server.JSApiStreamNamesResponseType, reading((*apiCall).streamNames)},
	{"STREAM.LIST", 0, server.JSApiStreamListResponseType, reading((*apiCall).streamList)},
	{"STREAM.CREATE", 1, server.JSApiStreamCreateResponseType, reading((*apiCall).createStream)},
	{"STREAM.UPDATE", 1, server.JSApiStreamUpdateResponseType, reading((*apiCall).updateStream)},
	{"STREAM.INFO", 1, server.JSApiStreamInfoResponseType, reading((*apiCall).streamInfo)},
	{"STREAM.DELETE", 1, server.JSApiStreamDeleteResponseType, (*apiCall).deleteStream},
	{"STREAM.PURGE", 1, server.JSApiStreamPurgeResponseType, reading((*apiCall).purgeStream)},
	{"STREAM.MSG.GET", 1, server.JSApiMsgGetResponseType, (*apiCall).getMessage},
	{"STREAM.MSG.DELETE", 1, server.JSApiMsgDeleteResponseType, reading((*apiCall).deleteMessage)},
	{"DIRECT.GET", 1, "", (*apiCall).directGet},
	{"CONSUMER.DURABLE.CREATE", 2, server.JSApiConsumerCreateResponseType, reading((*apiCall).createConsumer)},
	{"CONSUMER.CREATE", 1, server.JSApiConsumerCreateResponseType, reading((*apiCall).createConsumer)},
	{"CONSUMER.MSG.NEXT", 2, "", (*apiCall).nextMessage},
	{"CONSUMER.INFO", 2, server.JSApiConsumerInfoResponseType, (*apiCall).consumerInfo},
	{"CONSUMER.DELETE", 2, server.JSApiConsumerDeleteResponseType, (*apiCall).deleteConsumer},
	{"CONSUMER.NAMES", 1, server.JSApiConsumerNamesResponseType, reading((*apiCall).consumerNames)},
	{"CONSUMER.LIST", 1, server.JSApiConsumerListResponseType, reading((*apiCall).consumerList)},
	{"CONSUMER.UNPIN", 2, server.JSApiConsumerUnpinResponseType, reading((*apiCall).unpinConsumer)},
	{"CONSUMER.RESET", 2, server.JSApiConsumerResetResponseType, (*apiCall).resetConsumer},
}

// request answers an API request; false: nobody listens on such a subject.
func (s *Server) request(cmd *command) bool {
	subject := strings.TrimPrefix(cmd.subject, "$JS.API.")
	for _, call := range apiCalls {
		rest, ok := strings.CutPrefix(subject, call.name)
		if !ok || rest != "" && rest[0] != '.' {
			continue
		}
		c := &apiCall{s: s, kind: call.kind, reply: cmd.reply, hdr: cmd.hdr, body: cmd.data}
		if rest != "" {
			c.args = strings.SplitN(rest[1:], ".", 3)
		}
		if len(c.args) < call.args || call.args == 0 && len(c.args) > 0 {
			break
		}
		if !c.listens(call.name) {
			return false
		}
		call.do(c)
		break
	}
	return true
}

// listens reports whether somebody does: a stream answers direct reads, and a consumer its pulls, only while it is
// there; all else the server itself takes, if only to say nothing.
func (c *apiCall) listens(name string) bool {
	switch name {
	case "DIRECT.GET":
		st := c.stream()
		return st != nil && st.cfg.AllowDirect
	case "CONSUMER.MSG.NEXT":
		_, o := c.consumer()
		return o != nil && len(c.args) == 2
	}
	return true
}

func (c *apiCall) stream() *stream { return c.s.stream(c.args[0]) }

func (c *apiCall) consumer() (st *stream, o *consumer) {
	if st = c.stream(); st != nil {
		o = st.consumer(c.args[1])
	}
	return st, o
}

func (st *stream) consumer(name string) *consumer {
	for _, o := range st.consumers {
		if o.name == name {
			return o
		}
	}
	return nil
}

func (c *apiCall) respond(v any) {
	if c.reply != "" {
		c.s.answer(c.reply, nil, mustJSON(v))
	}
}

func (c *apiCall) fail(err *server.ApiError) {
	if c.reply == "" {
		return
	}
	b := append(append(make([]byte, 0, 256), `{"type":"`...), c.kind...)
	b = strconv.AppendInt(append(b, `","error":{"code":`...), int64(err.Code), 10)
	if err.ErrCode != 0 {
		b = appendMember(b, "err_code", int(err.ErrCode))
	}
	if err.Description != "" {
		b = jsonscan.AppendString(append(b, `,"description":`...), err.Description)
	}
	c.s.answer(c.reply, nil, append(b, "}}"...))
}

// decode reads the request's JSON; an empty request is left at v's zero value. It answers itself when it is not JSON.
func (c *apiCall) decode(v any) bool {
	if len(bytes.TrimSpace(c.body)) == 0 {
		return true
	}
	if err := json.Unmarshal(c.body, v); err != nil {
		c.fail(server.NewJSInvalidJSONError(err))
		return false
	}
	return true
}

// reading is a request whose JSON is read first.
func reading[T any](do func(c *apiCall, req *T)) func(c *apiCall) {
	return func(c *apiCall) {
		var req T
		if c.decode(&req) {
			do(c, &req)
		}
	}
}

// typed is what every answer begins with.
func (c *apiCall) typed() server.ApiResponse { return server.ApiResponse{Type: c.kind} }

// foundStream is the stream that a request names; without one it answers itself.
func (c *apiCall) foundStream() *stream {
	st := c.stream()
	if st == nil {
		c.fail(server.NewJSStreamNotFoundError())
	}
	return st
}

// metadata is that of a configuration with what the server says about itself.
func metadata(m map[string]string) map[string]string {
	out := maps.Clone(m)
	if out == nil {
		out = map[string]string{}
	}
	out[server.JSServerVersionMetadataKey] = server.VERSION
	out[server.JSServerLevelMetadataKey] = strconv.Itoa(server.JSApiLevel)
	return out
}

// requiredLevel notes in a configuration's metadata which server it needs.
func requiredLevel(m map[string]string, level int) map[string]string {
	out := maps.Clone(m)
	if out == nil {
		out = map[string]string{}
	}
	delete(out, server.JSServerVersionMetadataKey)
	delete(out, server.JSServerLevelMetadataKey)
	out[server.JSRequiredLevelMetadataKey] = strconv.Itoa(level)
	return out
}

func (c *apiCall) accountInfo() {
	stats := server.JetStreamAccountStats{API: server.JetStreamAPIStats{Level: server.JSApiLevel}}
	stats.Limits = server.JetStreamAccountLimits{
		MaxMemory: -1, MaxStore: -1, MaxStreams: -1, MaxConsumers: -1, MaxAckPending: -1, MemoryMaxStreamBytes: -1,
		StoreMaxStreamBytes: -1,
	}
	if c.s.cfg.MaxStore > 0 {
		stats.Limits.MaxStore = c.s.cfg.MaxStore
	}
	stats.Streams = len(c.s.streams)
	for _, st := range c.s.streams {
		stats.Consumers += len(st.consumers)
		if st.inFile {
			stats.Store += st.bytes
			stats.ReservedStore += uint64(max(st.cfg.MaxBytes, 0))
		} else {
			stats.Memory += st.bytes
		}
	}
	c.respond(server.JSApiAccountInfoResponse{
		ApiResponse: c.typed(), JetStreamAccountStats: &stats,
	})
}

// page is the part of a list that a request with an offset gets.
func page[T any](all []T, offset, most int) ([]T, server.ApiPaged) {
	offset = min(max(offset, 0), len(all))
	return all[offset:min(offset+most, len(all))], server.ApiPaged{Total: len(all), Offset: offset, Limit: most}
}

// matching are the streams with a subject that collides with a filter.
func (c *apiCall) matching(filter string) []*stream {
	return slices.DeleteFunc(slices.Clone(c.s.streams), func(st *stream) bool {
		return filter != "" && !slices.ContainsFunc(st.cfg.Subjects,
			func(s string) bool { return server.SubjectsCollide(s, filter) })
	})
}

func (c *apiCall) streamNames(req *server.JSApiStreamNamesRequest) {
	resp := server.JSApiStreamNamesResponse{ApiResponse: c.typed()}
	var streams []*stream
	streams, resp.ApiPaged = page(c.matching(req.Subject), req.Offset, server.JSApiNamesLimit)
	for _, st := range streams {
		resp.Streams = append(resp.Streams, st.cfg.Name)
	}
	c.respond(resp)
}

func (c *apiCall) streamList(req *server.JSApiStreamListRequest) {
	resp := server.JSApiStreamListResponse{ApiResponse: c.typed(), Streams: []*server.StreamInfo{}}
	var streams []*stream
	streams, resp.ApiPaged = page(c.matching(req.Subject), req.Offset, server.JSApiListLimit)
	for _, st := range streams {
		resp.Streams = append(resp.Streams, st.info())
	}
	c.respond(resp)
}

func (st *stream) info() *server.StreamInfo {
	cfg := st.cfg
	cfg.Metadata = metadata(cfg.Metadata)
	i := &server.StreamInfo{Created: st.created, State: st.state(false), Config: cfg, TimeStamp: st.s.stamp().UTC()}
	i.State.Consumers = len(st.consumers)
	return i
}

func (c *apiCall) streamInfo(req *server.JSApiStreamInfoRequest) {
	resp := server.JSApiStreamInfoResponse{ApiResponse: c.typed()}
	st := c.stream()
	if st == nil {
		resp.Error = server.NewJSStreamNotFoundError()
		c.respond(resp)
		return
	}
	var state server.StreamState
	st.stale("info", func() {
		state = st.state(req.DeletedDetails)
		state.Consumers = len(st.consumers)
		if req.SubjectsFilter == "" {
			return
		}
		filter := newPattern(req.SubjectsFilter)
		totals := map[string]uint64{}
		for subject, of := range st.bySubject {
			if filter.matches(subject) {
				totals[subject] = uint64(len(of.seqs))
			}
		}
		if len(totals) == 0 {
			return
		}
		var part []string
		part, resp.ApiPaged = page(sortedKeys(totals), req.Offset, server.JSMaxSubjectDetails)
		if len(part) < len(totals) {
			all := totals
			totals = make(map[string]uint64, len(part))
			for _, subject := range part {
				totals[subject] = all[subject]
			}
		}
		state.Subjects = totals
	})
	c.tellStream(st, state, resp.ApiPaged)
}

// tellStream answers with a stream's state. It is asked so often that what does not change is kept as it is told.
func (c *apiCall) tellStream(st *stream, state server.StreamState, p server.ApiPaged) {
	if c.reply == "" {
		return
	}
	b := make([]byte, 0, len(st.toldConfig())+768)
	b = appendMember(append(b, `{"type":"`+server.JSApiStreamInfoResponseType+`"`...), "total", p.Total)
	b = appendMember(appendMember(b, "offset", p.Offset), "limit", p.Limit)
	b = append(append(b, `,"config":`...), st.toldConfig()...)
	b = append(appendTime(b, "created", st.created), `,"state":`...)
	b = append(appendState(b, &state), `,"cluster":{"leader":"`+serverName+`"}`...)
	c.s.answer(c.reply, nil, append(appendTime(b, "ts", st.s.stamp()), '}'))
}

// toldConfig is the stream's configuration in JSON.
func (st *stream) toldConfig() []byte {
	if st.told == nil {
		cfg := st.cfg
		cfg.Metadata = metadata(cfg.Metadata)
		st.told = mustJSON(cfg)
	}
	return st.told
}

func (c *apiCall) deleteStream() {
	st := c.foundStream()
	if st == nil {
		return
	}
	for _, o := range slices.Clone(st.consumers) {
		o.stop()
	}
	st.close()
	c.s.streams = slices.DeleteFunc(c.s.streams, func(x *stream) bool { return x == st })
	c.respond(server.JSApiStreamDeleteResponse{ApiResponse: c.typed(), Success: true})
}

func (c *apiCall) purgeStream(req *server.JSApiStreamPurgeRequest) {
	st := c.stream()
	resp := server.JSApiStreamPurgeResponse{ApiResponse: c.typed()}
	switch {
	case req.Sequence > 0 && req.Keep > 0:
		resp.Error = server.NewJSBadRequestError()
	case st == nil:
		resp.Error = server.NewJSStreamNotFoundError()
	case st.cfg.Sealed:
		resp.Error = server.NewJSStreamSealedError()
	case st.cfg.DenyPurge:
		resp.Error = server.NewJSStreamPurgeFailedError(errors.New("stream purge not permitted"))
	default:
		resp.Purged, resp.Success = st.purge(req.Subject, req.Sequence, req.Keep), true
	}
	c.respond(resp)
}

func (c *apiCall) deleteMessage(req *server.JSApiMsgDeleteRequest) {
	if len(c.body) == 0 {
		c.fail(server.NewJSBadRequestError())
		return
	}
	st := c.stream()
	switch {
	case st == nil:
		c.fail(server.NewJSStreamNotFoundError())
	case st.cfg.Sealed:
		c.fail(server.NewJSStreamSealedError())
	case st.cfg.DenyDelete:
		c.fail(server.NewJSStreamMsgDeleteFailedError(errors.New("message delete not permitted")))
	case req.Seq < st.first || req.Seq > st.last:
		c.fail(server.NewJSStreamMsgDeleteFailedError(server.ErrStoreMsgNotFound))
	case !st.delete(req.Seq):
		c.fail(server.NewJSSequenceNotFoundError(req.Seq))
	default:
		c.respond(server.JSApiMsgDeleteResponse{ApiResponse: c.typed(), Success: true})
	}
}
