package artifactstore

import (
	"context"

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
	f, err := a.begin(ctx)
	if err != nil {
		return r, err
	}
	return a.createOrDrop(ctx, f, r)
}
