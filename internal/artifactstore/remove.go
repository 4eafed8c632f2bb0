package artifactstore

import (
	"context"
	"strings"

	"spool/internal/record"
	"spool/internal/retry"
	"spool/pkg/artifacts"
	"spool/pkg/events"
)

// Remove deletes an artifact's record, and its bytes when no other record names them (SPEC A7). A crash in between
// leaves bytes to gc.
func (a *Artifacts) Remove(ctx context.Context, r artifacts.Record) error {
	key := events.ArtifactKey(r.Session, string(r.ID))
	err := retry.Do(ctx, nil, func() error {
		f, err := a.records.Fence(ctx, a.lane)
		if err != nil {
			return err
		}
		rs, err := a.records.Records(ctx, key)
		if err != nil || !rs[0].Exists() {
			return err
		}
		if r, err = artifacts.DecodeRecord(rs[0].Value); err != nil {
			return err
		}
		puts := []record.Put{{Key: key, Expect: rs[0].Seq}}
		if key := record.SharedKey(r); key != "" {
			puts = append(puts, record.Put{Key: key, Expect: record.Any})
		}
		_, err = a.records.Commit(ctx, f, puts)
		return retry.Raced(err)
	})
	if err != nil || r.Locator == nil {
		return err
	}
	// A record that names these bytes can only be made beside one that does (by a fork): when there is none, there never
	// will be.
	named, err := a.named(ctx, r.Object)
	if err != nil || named {
		return err
	}
	o, err := record.DecodeLocator(r.Locator)
	if err != nil {
		return err
	}
	return a.objects.Reclaim(ctx, o)
}

// named tells whether a record names an object.
func (a *Artifacts) named(ctx context.Context, object string) (bool, error) {
	rs, err := a.records.List(ctx, events.SharedKeys(record.ObjectToken(object)))
	if err != nil || len(rs) > 0 {
		return len(rs) > 0, err
	}
	parts := strings.SplitN(object, "/", 3)
	if len(parts) < 3 || events.CheckToken("", parts[0]) != nil || events.CheckToken("", parts[1]) != nil {
		return false, nil
	}
	own, err := a.Records(ctx, parts[0], artifacts.ID(parts[1]))
	return len(own) > 0 && own[0].Object == object, err
}

// NamedBy is the sessions with a record that names an object of ArtifactsBucket.
func (a *Artifacts) NamedBy(ctx context.Context, object string) (map[string]bool, error) {
	users := map[string]bool{}
	// Whoever names the bytes of another has a mark. Most objects never had one: then there is no such subject, which
	// one message tells.
	rs, err := a.records.Records(ctx, events.SharedKeys(record.ObjectToken(object)))
	if err == nil && rs[0].Seq != 0 {
		rs, err = a.records.List(ctx, events.SharedKeys(record.ObjectToken(object)))
	}
	if err != nil {
		return nil, err
	}
	for _, r := range rs {
		if r.Exists() {
			users[events.SessionOf(r.Key)] = true
		}
	}
	session, rest, ok := strings.Cut(object, "/")
	id, _, named := strings.Cut(rest, "/")
	if !ok || !named || events.CheckToken("", session) != nil || events.CheckToken("", id) != nil {
		return users, nil
	}
	own, err := a.Records(ctx, session, artifacts.ID(id))
	if len(own) > 0 && own[0].Object == object {
		users[session] = true
	}
	return users, err
}
