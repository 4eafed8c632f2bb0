package memjs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
)

func (c *apiCall) createConsumer(req *server.CreateConsumerRequest) {
	cfg := &req.Config
	name := cfg.Name
	if len(c.args) > 1 {
		name = c.args[1]
	}
	switch {
	case c.args[0] != req.Stream:
		c.fail(server.NewJSStreamMismatchError())
		return
	case strings.ContainsAny(name, `\/`):
		c.fail(server.NewJSConsumerNameContainsPathSeparatorsError())
		return
	case len(c.args) > 1 && cfg.Durable != "" && cfg.Durable != name:
		c.fail(server.NewJSConsumerDurableNameNotMatchSubjectError())
		return
	case len(c.args) == 1 && cfg.Durable != "":
		c.fail(server.NewJSConsumerEphemeralWithDurableNameError())
		return
	case len(c.args) > 2 && len(cfg.FilterSubjects) > 0:
		c.fail(server.NewJSConsumerMultipleFiltersNotAllowedError())
		return
	case len(c.args) > 2 && cfg.FilterSubject != c.args[2]:
		c.fail(server.NewJSConsumerCreateFilterSubjectMismatchError())
		return
	case cfg.Replicas > 1:
		c.fail(server.NewJSStreamReplicasNotSupportedError())
		return
	}
	st := c.foundStream()
	if st == nil {
		return
	}
	cfg.Name = name
	o, err := st.makeConsumer(cfg, req.Action)
	if err != nil {
		c.fail(err)
		return
	}
	c.tellConsumer(o)
}

func (st *stream) makeConsumer(cfg *server.ConsumerConfig, action server.ConsumerAction) (*consumer, *server.ApiError) {
	level := 0
	if cfg.PriorityPolicy != server.PriorityNone || cfg.PinnedTTL != 0 || len(cfg.PriorityGroups) > 0 {
		level = 1
	}
	cfg.Metadata = requiredLevel(cfg.Metadata, level)
	setConsumerDefaults(cfg)
	if err := st.checkConsumer(cfg); err != nil {
		return nil, err
	}
	name := cmp.Or(cfg.Durable, cfg.Name)
	if o := st.consumer(name); o != nil && name != "" {
		if action == server.ActionCreate && !sameConfig(o.cfg, *cfg) {
			return nil, server.NewJSConsumerAlreadyExistsError()
		}
		if err := o.update(cfg); err != nil {
			return nil, server.NewJSConsumerCreateError(err)
		}
		return o, nil
	}
	if action == server.ActionUpdate {
		return nil, server.NewJSConsumerDoesNotExistError()
	}
	if st.cfg.MaxConsumers > 0 && len(st.consumers) >= st.cfg.MaxConsumers {
		return nil, server.NewJSMaximumConsumersLimitError()
	}
	if name == "" {
		st.s.consumers++
		name = fmt.Sprintf("C%07d", st.s.consumers)
		cfg.Name = name
	}
	o := newConsumer(st, name, *cfg)
	st.consumers = append(st.consumers, o)
	o.start()
	return o, nil
}

func sameConfig(a, b server.ConsumerConfig) bool {
	if a.InactiveThreshold == server.JsDeleteWaitTimeDefault && b.InactiveThreshold == 0 && b.Durable == "" {
		b.InactiveThreshold = a.InactiveThreshold // as it was set for one that says nothing
	}
	return reflect.DeepEqual(a, b)
}

func setConsumerDefaults(cfg *server.ConsumerConfig) {
	if cfg.MaxDeliver == 0 || cfg.MaxDeliver < -1 {
		cfg.MaxDeliver = -1
	}
	cfg.MaxRequestBatch, cfg.MaxRequestExpires = max(cfg.MaxRequestBatch, 0), max(cfg.MaxRequestExpires, 0)
	cfg.MaxRequestMaxBytes, cfg.Heartbeat = max(cfg.MaxRequestMaxBytes, 0), max(cfg.Heartbeat, 0)
	cfg.InactiveThreshold, cfg.PinnedTTL = max(cfg.InactiveThreshold, 0), max(cfg.PinnedTTL, 0)
	if cfg.MaxAckPending < -1 {
		cfg.MaxAckPending = -1
	}
	cfg.MaxWaiting = cmp.Or(cfg.MaxWaiting, server.JSWaitQueueDefaultMax)
	if cfg.AckWait == 0 && (cfg.AckPolicy == server.AckExplicit || cfg.AckPolicy == server.AckAll) {
		cfg.AckWait = server.JsAckWaitDefault
	}
	if cfg.MaxAckPending == 0 && cfg.AckPolicy != server.AckNone {
		cfg.MaxAckPending = server.JsDefaultMaxAckPending
	}
	if cfg.PriorityPolicy == server.PriorityPinnedClient && cfg.PinnedTTL == 0 {
		cfg.PinnedTTL = server.JsDefaultPinnedTTL
	}
}

// checkConsumer refuses what contradicts itself or is not modelled.
func (st *stream) checkConsumer(cfg *server.ConsumerConfig) *server.ApiError {
	switch {
	case !validName(cfg.Name, true):
		return server.NewJSStreamInvalidConfigError(errors.New("consumer name can not contain '.', '*', '>', '\\', '/'"))
	case cfg.AckPolicy == server.AckFlowControl, cfg.PauseUntil != nil, cfg.RateLimit > 0, cfg.Sourcing, cfg.Direct,
		cfg.DeliverSubject != "", len(cfg.BackOff) > 0,
		cfg.PriorityPolicy != server.PriorityNone && cfg.PriorityPolicy != server.PriorityPinnedClient,
		cfg.ReplayPolicy != server.ReplayInstant:
		return server.NewJSStreamInvalidConfigError(errNotModelled)
	case cfg.FilterSubject != "" && len(cfg.FilterSubjects) > 0:
		return server.NewJSConsumerDuplicateFilterSubjectsError()
	case cfg.Heartbeat > 0:
		return server.NewJSConsumerHBRequiresPushError()
	case cfg.FlowControl:
		return server.NewJSConsumerFCRequiresPushError()
	case cfg.Durable != "" && cfg.Name != "" && cfg.Name != cfg.Durable:
		return server.NewJSConsumerCreateDurableAndNameMismatchError()
	}
	filters := slices.Clone(cfg.FilterSubjects)
	if cfg.FilterSubject != "" {
		filters = append(filters, cfg.FilterSubject)
	}
	for i, f := range filters {
		if f == "" {
			return server.NewJSConsumerEmptyFilterError()
		}
		if !server.IsValidSubject(f) {
			return server.NewJSStreamInvalidConfigError(server.ErrBadSubject)
		}
		for j, other := range filters {
			if i != j && matchTokens(f, other) {
				return server.NewJSConsumerOverlappingSubjectFiltersError()
			}
		}
	}
	if err := checkStart(cfg, len(filters) > 0); err != "" {
		return server.NewJSConsumerInvalidPolicyError(errors.New(err))
	}
	switch pinned := cfg.PriorityPolicy == server.PriorityPinnedClient; {
	case pinned && len(cfg.PriorityGroups) == 0:
		return server.NewJSConsumerPriorityPolicyWithoutGroupError()
	case pinned && slices.Contains(cfg.PriorityGroups, ""):
		return server.NewJSConsumerEmptyGroupNameError()
	case !pinned && len(cfg.PriorityGroups) > 0:
		return server.NewJSConsumerPriorityGroupWithPolicyNoneError()
	case !pinned && cfg.PinnedTTL > 0:
		return server.NewJSConsumerPinnedTTLWithoutPriorityPolicyNoneError()
	}
	return nil
}

// checkStart says how a deliver policy and the start that goes with it contradict each other.
func checkStart(cfg *server.ConsumerConfig, filtered bool) string {
	names := map[server.DeliverPolicy]string{
		server.DeliverAll: "all", server.DeliverLast: "last", server.DeliverNew: "new",
		server.DeliverLastPerSubject:  "last per subject",
		server.DeliverByStartSequence: "by start sequence", server.DeliverByStartTime: "by start time",
	}
	begin := "consumer delivery policy is deliver " + names[cfg.DeliverPolicy] + ", but optional "
	needsSeq, needsTime := cfg.DeliverPolicy == server.DeliverByStartSequence,
		cfg.DeliverPolicy == server.DeliverByStartTime
	switch {
	case needsSeq && cfg.OptStartSeq == 0:
		return begin + "start sequence is not set"
	case needsTime && cfg.OptStartTime == nil:
		return begin + "start time is not set"
	case !needsSeq && cfg.OptStartSeq > 0 && needsTime:
		return begin + "start start sequence is also set"
	case !needsSeq && cfg.OptStartSeq > 0:
		return begin + "start sequence is also set"
	case !needsTime && cfg.OptStartTime != nil:
		return begin + "start time is also set"
	case cfg.DeliverPolicy == server.DeliverLastPerSubject && !filtered:
		return begin + "filter subject is not set"
	}
	return ""
}

// update takes a new configuration; what cannot change is an error.
func (o *consumer) update(cfg *server.ConsumerConfig) error {
	was := o.cfg
	if sameConfig(was, *cfg) {
		return nil
	}
	sameTime := was.OptStartTime == nil && cfg.OptStartTime == nil ||
		was.OptStartTime != nil && cfg.OptStartTime != nil && was.OptStartTime.Equal(*cfg.OptStartTime)
	for _, c := range []struct {
		same bool
		what string
	}{
		{was.DeliverPolicy == cfg.DeliverPolicy, "deliver policy"}, {was.MemoryStorage == cfg.MemoryStorage,
			"storage type"},
		{was.OptStartSeq == cfg.OptStartSeq, "start sequence"}, {sameTime, "start time"},
		{was.AckPolicy == cfg.AckPolicy, "ack policy"}, {was.MaxWaiting == cfg.MaxWaiting, "max waiting"},
	} {
		if !c.same {
			return errors.New(c.what + " can not be updated")
		}
	}
	o.cfg, o.told = *cfg, nil
	o.setIdle()
	if o.idle > 0 && o.cfg.InactiveThreshold != was.InactiveThreshold {
		o.st.s.setTimer(&o.idleTimer, o.st.s.now.Add(o.idle))
	}
	if was.FilterSubject != cfg.FilterSubject || !slices.Equal(was.FilterSubjects, cfg.FilterSubjects) {
		o.setFilters()
		o.recount()
	}
	if was.AckWait != cfg.AckWait && o.ackTimer.place > 0 {
		o.st.s.setTimer(&o.ackTimer, o.st.s.now.Add(o.ackWait()))
	}
	o.signal()
	return nil
}

func (c *apiCall) nextMessage() {
	_, o := c.consumer()
	if c.reply != "" {
		o.request(c.reply, c.body)
	}
}

// found is the consumer that a request names; without one it answers itself.
func (c *apiCall) found() *consumer {
	st, o := c.consumer()
	switch {
	case st == nil:
		c.fail(server.NewJSStreamNotFoundError())
	case o == nil:
		c.fail(server.NewJSConsumerNotFoundError())
	}
	return o
}

func (c *apiCall) consumerInfo() {
	if len(bytes.TrimSpace(c.body)) > 0 && string(bytes.TrimSpace(c.body)) != "{}" {
		c.fail(server.NewJSNotEmptyRequestError())
		return
	}
	if o := c.found(); o != nil {
		c.tellConsumer(o)
	}
}

func (c *apiCall) deleteConsumer() {
	if o := c.found(); o != nil {
		o.stop()
		c.respond(server.JSApiConsumerDeleteResponse{ApiResponse: c.typed(), Success: true})
	}
}

func (st *stream) consumersByName() []*consumer {
	return slices.SortedFunc(slices.Values(st.consumers), func(a, b *consumer) int { return compare(a.name, b.name) })
}

func (c *apiCall) consumerNames(req *server.JSApiConsumersRequest) {
	st := c.foundStream()
	if st == nil {
		return
	}
	resp := server.JSApiConsumerNamesResponse{ApiResponse: c.typed(), Consumers: []string{}}
	var part []*consumer
	part, resp.ApiPaged = page(st.consumersByName(), req.Offset, server.JSApiNamesLimit)
	for _, o := range part {
		resp.Consumers = append(resp.Consumers, o.name)
	}
	c.respond(resp)
}

func (c *apiCall) consumerList(req *server.JSApiConsumersRequest) {
	st := c.foundStream()
	if st == nil {
		return
	}
	part, paged := page(st.consumersByName(), req.Offset, server.JSApiListLimit)
	c.tellConsumers(part, paged)
}

func (c *apiCall) unpinConsumer(req *server.JSApiConsumerUnpinRequest) {
	if req.Group == "" {
		c.fail(server.NewJSInvalidJSONError(errors.New("consumer group not specified")))
		return
	}
	o := c.found()
	if o == nil {
		return
	}
	if !slices.Contains(o.cfg.PriorityGroups, req.Group) {
		c.fail(server.NewJSConsumerInvalidPriorityGroupError())
		return
	}
	o.unpin()
	o.signal()
	c.respond(server.JSApiConsumerUnpinResponse{ApiResponse: c.typed()})
}

func (c *apiCall) resetConsumer() {
	_, o := c.consumer()
	if o == nil || c.reply == "" {
		return
	}
	resp := server.JSApiConsumerResetResponse{ApiResponse: c.typed()}
	var req server.JSApiConsumerResetRequest
	if err := json.Unmarshal(c.body, &req); err != nil && len(c.body) > 0 {
		resp.Error = server.NewJSInvalidJSONError(err)
	} else if resp.ResetSeq, err = o.reset(req.Seq); err != nil {
		resp.Error = server.NewJSConsumerInvalidResetError(err)
	} else {
		resp.ConsumerInfo = o.info()
		cfg := o.cfg
		cfg.Metadata = metadata(cfg.Metadata)
		resp.Config = &cfg
	}
	c.respond(resp)
}
