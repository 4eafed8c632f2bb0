package subscriptions

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"spool/internal/dstreams"
	"spool/internal/record"
	"spool/pkg/events"
)

// Paths below that of streams.
const (
	Control = dstreams.Control + "/"
	subs    = Control + "subscriptions/"
	jwks    = Control + "jwks.json"
)

const mostBody = 1 << 20

// Own reports whether a request shows a token of a wake, or needs none: who lets others in lets it in.
func Own(prefix string, r *http.Request) bool {
	_, action, ok := parts(prefix, r)
	return ok && r.Method == http.MethodPost && (action == "callback" || action == "ack" || action == "release") || r.URL.Path == prefix+jwks
}

// parts are the id of a subscription in a path, and what is behind it.
func parts(prefix string, r *http.Request) (id, rest string, ok bool) {
	path, ok := strings.CutPrefix(r.URL.EscapedPath(), prefix+subs)
	id, rest, _ = strings.Cut(path, "/")
	id, bad1 := url.PathUnescape(id)
	rest, bad2 := url.PathUnescape(rest)
	return id, rest, ok && id != "" && bad1 == nil && bad2 == nil
}

func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	r.Body = http.MaxBytesReader(w, r.Body, mostBody)
	status, body, err := s.serve(r)
	if r.URL.Path == s.Prefix+jwks && err == nil {
		w.Header().Set("Content-Type", "application/jwk-set+json")
		w.Header().Set("Cache-Control", "public, max-age=300")
	}
	if err != nil {
		status, body = s.failure(r, err)
	}
	if body == nil {
		w.WriteHeader(status)
		return
	}
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a client that is gone
}

// failure is the answer that an error means.
func (s *Service) failure(r *http.Request, err error) (status int, body any) {
	var no *refusal
	var long *http.MaxBytesError
	code := "UNAVAILABLE"
	switch {
	case errors.As(err, &no):
		status, code = no.status, no.code
	case errors.As(err, &long):
		status, code, err = http.StatusRequestEntityTooLarge, "INVALID_REQUEST", fmt.Errorf("%w: %d bytes at most", err, long.Limit)
	case record.Temporary(err), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		status = http.StatusServiceUnavailable
	default:
		status = http.StatusInternalServerError
		s.Log.ErrorContext(r.Context(), "serve a subscription", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	refused := map[string]any{"code": code, "message": err.Error()}
	if no != nil && no.holder != "" {
		refused["current_holder"], refused["generation"] = no.holder, no.generation
	}
	return status, map[string]any{"error": refused}
}

func (s *Service) serve(r *http.Request) (status int, body any, err error) {
	if r.URL.Path == s.Prefix+jwks {
		if r.Method != http.MethodGet {
			return 0, nil, notAllowed
		}
		return http.StatusOK, s.keys(), nil
	}
	id, rest, ok := parts(s.Prefix, r)
	if !ok {
		return 0, nil, no(http.StatusNotFound, "SUBSCRIPTION_NOT_FOUND", "nothing is here: subscriptions are at %sID", s.Prefix+subs)
	}
	if len(id) > mostName {
		return 0, nil, bad("the id has %d bytes: at most %d", len(id), mostName)
	}
	name, link := strings.CutPrefix(rest, "streams/")
	switch route := r.Method + " " + rest; {
	case route == "PUT ":
		return s.put(r, id)
	case route == "GET ":
		sub, err := s.load(r.Context(), id)
		if err != nil {
			return 0, nil, err
		}
		return http.StatusOK, s.shown(sub), nil
	case route == "DELETE ":
		return http.StatusNoContent, nil, s.remove(r.Context(), id)
	case route == "POST streams":
		return s.add(r, id)
	case r.Method == http.MethodDelete && link:
		return s.unlink(r, id, name)
	case route == "POST claim":
		return s.claim(r, id)
	case route == "POST callback", route == "POST ack":
		return s.ack(r, id)
	case route == "POST release":
		return s.release(r, id)
	case rest == "" || rest == "streams" || link || slices.Contains([]string{"claim", "callback", "ack", "release"}, rest):
		return 0, nil, notAllowed
	}
	return 0, nil, no(http.StatusNotFound, "SUBSCRIPTION_NOT_FOUND", "a subscription has no %.100q", rest)
}

var notAllowed = no(http.StatusMethodNotAllowed, "INVALID_REQUEST", "this method is not for this path")

// read reads the body of a request, a JSON object.
func read(r *http.Request, into any) error {
	err := json.NewDecoder(r.Body).Decode(into)
	var long *http.MaxBytesError
	if err != nil && !errors.As(err, &long) {
		return bad("the body is no such JSON object: %v", err)
	}
	return err
}

func (s *Service) put(r *http.Request, id string) (int, any, error) {
	var asks struct {
		Type    string   `json:"type"`
		Pattern string   `json:"pattern"`
		Streams []string `json:"streams"`
		Webhook struct {
			URL string `json:"url"`
		} `json:"webhook"`
		WakeStream  string `json:"wake_stream"`
		Lease       *int64 `json:"lease_ttl_ms"`
		Description string `json:"description"`
	}
	if err := read(r, &asks); err != nil {
		return 0, nil, err
	}
	cfg := config{asks.Type, asks.Pattern, asks.Streams, asks.Webhook.URL, asks.WakeStream, defaultLease, asks.Description}
	if asks.Lease != nil {
		cfg.Lease = *asks.Lease
	}
	if err := cfg.check(s.Private); err != nil {
		return 0, nil, err
	}
	if cfg.Type == byWebhook && s.Key == nil {
		return 0, nil, bad("this server has no key to sign webhooks with: give it one with --webhook-key, or use pull-wake")
	}
	ctx := r.Context()
	status := http.StatusOK
	sub, err := s.load(ctx, id)
	if isCode(err, "SUBSCRIPTION_NOT_FOUND") {
		if sub, err = s.fresh(r, id, cfg); err == nil {
			err = s.write(ctx, sub)
		}
		if status = http.StatusCreated; errors.Is(err, record.ErrConflict) { // by somebody else
			status = http.StatusOK
			sub, err = s.load(ctx, id)
		}
	}
	if err == nil && !sub.Config.same(cfg) {
		err = no(http.StatusConflict, "SUBSCRIPTION_ALREADY_EXISTS", "subscription %.200q is configured otherwise", id)
	}
	if err == nil {
		sub, err = s.change(ctx, id, func(sub *subscription) (bool, error) { return s.fill(ctx, sub) })
	}
	if err != nil {
		return 0, nil, err
	}
	return status, s.shown(sub), nil
}

// fresh is a subscription that is not there yet, and has seen nothing: of the streams that are named it begins where they end.
func (s *Service) fresh(r *http.Request, id string, cfg config) (*subscription, error) {
	rs, err := s.Records.Records(r.Context(), events.SubscriptionKey(id)) // of one that was removed there is a mark
	if err != nil {
		return nil, err
	}
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	sub := &subscription{
		ID: id, Config: cfg, Base: scheme + r.Host, Created: time.Now().UnixMilli(), Links: map[string]*link{}, rev: rs[0].Seq,
		most: s.Records.MaxRecord(),
	}
	return sub, s.explicit(r.Context(), sub, cfg.Streams)
}

// explicit links streams, from where they end.
func (s *Service) explicit(ctx context.Context, sub *subscription, names []string) error {
	for _, name := range names {
		at, err := s.tail(ctx, sub, name)
		if err != nil {
			return err
		}
		if !sub.link(name, true, at.Offset, at.ID) {
			return bad("a subscription has at most %d streams, and no more than fit into a record: %d are linked", mostLinks, len(sub.Links))
		}
	}
	return nil
}

func (s *Service) remove(ctx context.Context, id string) error {
	for range mostTries {
		rs, err := s.Records.Records(ctx, events.SubscriptionKey(id)) // also one that cannot be read
		if err == nil && rs[0].Exists() {
			_, err = s.Records.Write(ctx, record.Put{Key: rs[0].Key, Expect: rs[0].Seq})
		}
		if err == nil || !errors.Is(err, record.ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("%w: too many others change subscription %.200q", record.ErrBusy, id)
}

func (s *Service) add(r *http.Request, id string) (int, any, error) {
	var asks struct {
		Streams []string `json:"streams"`
	}
	if err := read(r, &asks); err != nil {
		return 0, nil, err
	}
	if len(asks.Streams) == 0 {
		return 0, nil, bad("streams: name at least one")
	}
	_, err := s.change(r.Context(), id, func(sub *subscription) (bool, error) {
		names, err := sub.Config.spelt(asks.Streams)
		if err != nil {
			return false, err
		}
		return true, s.explicit(r.Context(), sub, names)
	})
	return http.StatusNoContent, nil, err
}

func (s *Service) unlink(r *http.Request, id, name string) (int, any, error) {
	name, err := dstreams.Spelt(name)
	if err != nil {
		return 0, nil, bad("stream: %v", err)
	}
	_, err = s.change(r.Context(), id, func(sub *subscription) (bool, error) {
		l := sub.Links[name]
		if l == nil || !l.Explicit {
			return false, nil
		}
		if l.Explicit = false; !l.Glob {
			delete(sub.Links, name)
		}
		return true, nil
	})
	return http.StatusNoContent, nil, err
}

func (s *Service) claim(r *http.Request, id string) (int, any, error) {
	var asks struct {
		Worker string `json:"worker"`
	}
	if err := read(r, &asks); err != nil {
		return 0, nil, err
	}
	if asks.Worker == "" || len(asks.Worker) > mostName {
		return 0, nil, bad("worker: a name of 1 to %d bytes", mostName)
	}
	ctx := r.Context()
	sub, err := s.change(ctx, id, func(sub *subscription) (bool, error) {
		now := time.Now()
		if sub.Config.Type != byPull {
			return false, bad("subscription %.200q has a webhook: it is not claimed", id)
		}
		if sub.Wake != nil && sub.Wake.Holder != "" && !sub.over(now) {
			return false, &refusal{
				status: http.StatusConflict, code: "ALREADY_CLAIMED", text: sub.Wake.Holder + " works at it",
				holder: sub.Wake.Holder, generation: sub.Generation,
			}
		}
		if _, err := s.tails(ctx, sub, sub.names()); err != nil {
			return false, err
		}
		if !sub.pending() {
			return false, no(http.StatusConflict, "NO_PENDING_WORK", "all is acked")
		}
		if sub.Wake == nil || sub.over(now) {
			sub.begin(now)
		}
		sub.snap()
		sub.lease(asks.Worker, time.Now())
		return true, nil
	})
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, map[string]any{
		"wake_id": sub.Wake.ID, "generation": sub.Generation, "token": sub.Wake.secret, "streams": sub.told(), "lease_ttl_ms": sub.Config.Lease,
	}, nil
}

// held changes a subscription for who has its wake.
func (s *Service) held(r *http.Request, id string, f func(*subscription, work) error) error {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		token = ""
	}
	var w work
	if err := read(r, &w); err != nil {
		return err
	}
	ctx := r.Context()
	sub, err := s.change(ctx, id, func(sub *subscription) (bool, error) {
		if err := sub.fence(strings.TrimSpace(token), w, time.Now()); err != nil {
			return false, err
		}
		if _, err := s.tails(ctx, sub, sub.names()); err != nil {
			return false, err
		}
		return true, f(sub, w)
	})
	if err == nil {
		s.tell(ctx, sub)
	}
	return err
}

func (s *Service) ack(r *http.Request, id string) (int, any, error) {
	next := false
	err := s.held(r, id, func(sub *subscription, w work) (err error) {
		if err := sub.take(w.Acks); err != nil {
			return err
		}
		sub.Failed, sub.Next = 0, 0
		if !w.Done {
			sub.Wake.Until = time.Now().UnixMilli() + sub.Config.Lease
			return nil
		}
		sub.Wake = nil
		_, err = s.advance(r.Context(), sub, moved{all: true})
		next = sub.Wake != nil
		return err
	})
	return http.StatusOK, map[string]any{"ok": true, "next_wake": next}, err
}

func (s *Service) release(r *http.Request, id string) (int, any, error) {
	err := s.held(r, id, func(sub *subscription, _ work) error {
		if sub.Config.Type != byPull {
			return bad("subscription %.200q has a webhook: it is not released", id)
		}
		sub.Wake = nil
		_, err := s.advance(r.Context(), sub, moved{all: true})
		return err
	})
	return http.StatusNoContent, nil, err
}

// shown is a subscription as clients see it.
func (s *Service) shown(sub *subscription) map[string]any {
	type shownLink struct {
		Path  string `json:"path"`
		Link  string `json:"link_type"`
		Acked string `json:"acked_offset"`
	}
	links := []shownLink{}
	for _, name := range sub.names() {
		links = append(links, shownLink{name, sub.Links[name].kind(), sub.Links[name].Acked})
	}
	out := map[string]any{
		"id": sub.ID, "subscription_id": sub.ID, "type": sub.Config.Type, "streams": links, "lease_ttl_ms": sub.Config.Lease,
		"created_at": time.UnixMilli(sub.Created).UTC().Format("2006-01-02T15:04:05.000Z"), "status": "active",
	}
	if sub.Failed > 0 {
		out["status"] = "failed"
	}
	for key, value := range map[string]string{
		"pattern": sub.Config.Pattern, "wake_stream": sub.Config.WakeStream, "description": sub.Config.Description,
	} {
		if value != "" {
			out[key] = value
		}
	}
	if sub.Config.Type == byWebhook {
		hook := map[string]any{"url": sub.Config.URL}
		if s.Key != nil {
			hook["signing"] = map[string]string{"alg": "ed25519", "kid": s.kid, "jwks_url": sub.Base + s.Prefix + jwks}
		}
		out["webhook"] = hook
	}
	return out
}

// at is the address of what a subscription can be asked for.
func (s *Service) at(sub *subscription, action string) string {
	return sub.Base + s.Prefix + subs + url.PathEscape(sub.ID) + action
}

// keys are the public keys of webhooks, a JSON Web Key Set.
func (s *Service) keys() any {
	type key struct {
		Type  string `json:"kty"`
		Curve string `json:"crv"`
		ID    string `json:"kid"`
		Use   string `json:"use"`
		Alg   string `json:"alg"`
		X     string `json:"x"`
	}
	keys := []key{}
	if s.Key != nil {
		x := base64.RawURLEncoding.EncodeToString(s.Key.Public().(ed25519.PublicKey))
		keys = append(keys, key{"OKP", "Ed25519", s.kid, "sig", "EdDSA", x})
	}
	return map[string]any{"keys": keys}
}
