package artifactstore

import (
	"context"

	"spool/internal/record"
	"spool/pkg/artifacts"
)

// WithObjects is the registry over other objects.
func (a *Artifacts) WithObjects(wrap func(Objects) Objects) *Artifacts {
	other := *a
	other.objects = wrap(a.objects)
	return &other
}

// CreateAgain commits a record that is there, as after an answer that was lost.
func (a *Artifacts) CreateAgain(ctx context.Context, r artifacts.Record) (artifacts.Record, error) {
	f, err := a.begin(ctx, r)
	if err != nil {
		return r, err
	}
	return a.create(ctx, f, r, func(_ context.Context, o record.Object) (record.Object, error) { return o, nil })
}
