package memjs

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// errNotModelled is the reason for which a configuration is refused that a server would take.
var errNotModelled = errors.New("memjs does not model this configuration")

func validName(name string, empty bool) bool {
	return (name != "" || empty) && !strings.ContainsAny(name, " \t\r\n\f.*>/\\")
}

func (c *apiCall) createStream(req *server.StreamConfigRequest) {
	cfg, err := c.checkStream(req.StreamConfig)
	if err != nil {
		c.fail(err)
		return
	}
	if st := c.stream(); st != nil {
		if !sameStream(st.cfg, cfg) {
			c.fail(server.NewJSStreamNameExistError())
			return
		}
		c.respond(server.JSApiStreamCreateResponse{ApiResponse: c.typed(),
			StreamInfo: st.info(), DidCreate: true})
		return
	}
	if c.overlaps(cfg) {
		c.fail(server.NewJSStreamSubjectOverlapError())
		return
	}
	st, e := newStream(c.s, cfg)
	if e != nil {
		c.fail(server.NewJSStreamInvalidConfigError(e))
		return
	}
	i, _ := slices.BinarySearchFunc(c.s.streams, cfg.Name, func(st *stream,
		name string) int {
		return compare(st.cfg.Name, name)
	})
	c.s.streams = slices.Insert(c.s.streams, i, st)
	c.respond(server.JSApiStreamCreateResponse{ApiResponse: c.typed(),
		StreamInfo: st.info(), DidCreate: true})
}

func sameStream(a, b server.StreamConfig) bool { return reflect.DeepEqual(a, b) }

// overlaps reports whether another stream takes some of a stream's subjects.
func (c *apiCall) overlaps(cfg server.StreamConfig) bool {
	return slices.ContainsFunc(c.s.streams, func(st *stream) bool {
		return st.cfg.Name != cfg.Name && slices.ContainsFunc(st.cfg.Subjects, func(have string) bool {
			return slices.ContainsFunc(cfg.Subjects, func(want string) bool {
				return server.SubjectsCollide(have,
					want)
			})
		})
	})
}

func (c *apiCall) updateStream(req *server.StreamConfigRequest) {
	cfg, err := c.checkStream(req.StreamConfig)
	if err != nil {
		c.fail(err)
		return
	}
	st := c.foundStream()
	if st == nil {
		return
	}
	invalid := func(what string) {
		c.fail(server.NewJSStreamInvalidConfigError(errors.New("stream configuration update can not " + what)))
	}
	was := st.cfg
	switch {
	case cfg.Storage != was.Storage:
		invalid("change storage type")
		return
	case was.Sealed && !cfg.Sealed:
		invalid("unseal a sealed stream")
		return
	case was.DenyDelete && !cfg.DenyDelete:
		invalid("cancel deny message deletes")
		return
	case was.DenyPurge && !cfg.DenyPurge:
		invalid("cancel deny purge")
		return
	case was.AllowMsgSchedules && !cfg.AllowMsgSchedules:
		c.fail(server.NewJSStreamInvalidConfigError(errors.New("message schedules can not be disabled")))
		return
	case c.overlaps(cfg):
		c.fail(server.NewJSStreamSubjectOverlapError())
		return
	}
	if cfg.Sealed {
		cfg.MaxAge, cfg.Discard = 0, server.DiscardNew
		cfg.DenyDelete, cfg.DenyPurge, cfg.AllowRollup = true, true, false
	}
	cfg.FirstSeq = was.FirstSeq
	if e := st.configure(cfg); e != nil {
		c.fail(server.NewJSStreamInvalidConfigError(e))
		return
	}
	st.enforce()
	c.respond(server.JSApiStreamUpdateResponse{ApiResponse: c.typed(), StreamInfo: st.info()})
}

// enforce applies limits that became narrower.
func (st *stream) enforce() {
	for _, subject := range sortedKeys(st.bySubject) {
		st.limitSubject(subject)
	}
	for st.count > 0 && (st.cfg.MaxMsgs > 0 && int64(st.count) > st.cfg.MaxMsgs || st.cfg.MaxBytes > 0 &&
		st.bytes > uint64(st.cfg.MaxBytes)) {
		st.take(st.load(st.first))
	}
	st.armAge()
}

// checkStream completes a configuration as a server does, or says what is wrong with it.
func (c *apiCall) checkStream(cfg server.StreamConfig) (server.StreamConfig, *server.ApiError) {
	if cfg.Name != c.args[0] {
		return cfg, server.NewJSStreamMismatchError()
	}
	if !validName(cfg.Name, false) {
		return cfg, invalidStream("stream name is required and can not contain '.', '*', '>', '\\', '/'")
	}
	if cfg.Mirror != nil || len(cfg.Sources) > 0 || cfg.RePublish != nil || cfg.AllowMsgCounter ||
		cfg.SubjectDeleteMarkerTTL > 0 ||
		cfg.Retention != server.LimitsPolicy || cfg.Compression != server.NoCompression ||
		cfg.PersistMode != server.DefaultPersistMode {
		return cfg, server.NewJSStreamInvalidConfigError(errNotModelled)
	}
	cfg.Storage = cmp.Or(cfg.Storage, server.FileStorage)
	if cfg.Replicas > 1 {
		return cfg, server.NewJSStreamReplicasNotSupportedError()
	}
	cfg.Replicas = 1
	for _, n := range []*int64{&cfg.MaxMsgs, &cfg.MaxBytes, &cfg.MaxMsgsPer} {
		if *n < 1 {
			*n = -1
		}
	}
	if cfg.MaxMsgSize < 1 {
		cfg.MaxMsgSize = -1
	}
	if cfg.MaxConsumers < 1 {
		cfg.MaxConsumers = -1
	}
	if cfg.Duplicates == 0 {
		if cfg.Duplicates = server.StreamDefaultDuplicatesWindow; cfg.MaxAge != 0 && cfg.MaxAge < cfg.Duplicates {
			cfg.Duplicates = cfg.MaxAge
		}
	}
	level := 0
	if cfg.AllowMsgTTL {
		level = 1
	}
	if cfg.AllowAtomicPublish || cfg.AllowMsgSchedules {
		level = 2
	}
	if cfg.AllowBatchPublish {
		level = 4
	}
	cfg.Metadata = requiredLevel(cfg.Metadata, level)
	if len(cfg.Subjects) == 0 {
		cfg.Subjects = []string{cfg.Name}
	}
	return checkFlags(cfg)
}

func invalidStream(why string) *server.ApiError {
	return server.NewJSStreamInvalidConfigError(errors.New(why))
}

func checkFlags(cfg server.StreamConfig) (server.StreamConfig, *server.ApiError) {
	switch {
	case cfg.MaxAge < 0:
		return cfg, invalidStream("max age can not be negative")
	case cfg.MaxAge != 0 && cfg.MaxAge < 100*time.Millisecond:
		return cfg, invalidStream("max age needs to be >= 100ms")
	case cfg.MaxAge != 0 && cfg.Duplicates > cfg.MaxAge:
		return cfg, invalidStream("duplicates window can not be larger then max age")
	case cfg.Duplicates < 100*time.Millisecond:
		return cfg, invalidStream("duplicates window needs to be >= 100ms")
	case cfg.DenyPurge && cfg.AllowRollup:
		return cfg, invalidStream("roll-ups require the purge permission")
	case cfg.DiscardNewPer && cfg.Discard != server.DiscardNew:
		return cfg, invalidStream("discard new per subject requires discard new policy to be set")
	case cfg.DiscardNewPer && cfg.MaxMsgsPer <= 0:
		return cfg, invalidStream("discard new per subject requires max msgs per subject > 0")
	case cfg.AllowMsgSchedules && cfg.Discard == server.DiscardNew:
		return cfg, invalidStream("message scheduling cannot use discard new")
	}
	if cfg.AllowMsgSchedules && !cfg.AllowRollup {
		cfg.AllowRollup, cfg.DenyPurge = true, false
	}
	for i, subject := range cfg.Subjects {
		if !server.IsValidSubject(subject) {
			return cfg, invalidStream("invalid subject")
		}
		for _, other := range cfg.Subjects[:i] {
			if subject == other {
				return cfg, invalidStream("duplicate subjects detected")
			}
			if server.SubjectsCollide(subject, other) {
				return cfg, invalidStream(fmt.Sprintf("subject %q overlaps with %q", subject, other))
			}
		}
	}
	return cfg, nil
}
