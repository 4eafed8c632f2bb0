package httpapi

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"spool/internal/access"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
)

// removals are the routes that take something away for good.
var removals = []route{
	{
		method: "DELETE", path: sessionPath, need: access.Admin, in: storing,
		about: "Delete a session with all that belongs to it; 409 with session_active while a run or an output is live, " +
			"409 also while another session goes on from it without having it. What nobody else has is collected by the next gc cycle.",
		query: []param{{name: "force", kind: "boolean", about: "although a run or an output is live, or another session needs it"},
			{name: "by", kind: "string", about: "who does it, for the receipt"}},
		gives: object("receipt"), also: []int{409, 503}, do: (*api).deleteSession,
	},
	{
		method: "DELETE", path: "/v1/artifacts/{id}", need: access.Admin, in: storing,
		about: "Delete an artifact: its record, and its bytes unless a fork has them too.", gives: object("deleted"),
		also: []int{503}, do: (*api).deleteArtifact,
	},
}

// deleteSession answers with the receipt (SPEC A6).
func (a *api) deleteSession(w http.ResponseWriter, r *http.Request) error {
	session, err := sessionOf(r)
	if err != nil {
		return err
	}
	how := client.Deletion{Force: isSet(r, "force"), By: cmp.Or(events.UserFrom(r.Context()), r.URL.Query().Get("by"))}
	receipt, err := a.cfg.Client.Session(session).Delete(r.Context(), how)
	var active *artifacts.ActiveError
	switch {
	case errors.As(err, &active):
		live := active.Runs
		for _, o := range active.Outputs {
			live = append(live, "output "+o)
		}
		refuse(w, http.StatusConflict, fmt.Sprintf("session_active: %v: %s", err, strings.Join(live, ", ")))
		return nil
	case err == nil:
		answer(w, http.StatusOK, receipt)
	}
	return err
}

// deleteArtifact answers as a cleanup that took one does (SPEC A5).
func (a *api) deleteArtifact(w http.ResponseWriter, r *http.Request) error {
	id := artifacts.ID(r.PathValue("id"))
	rec, err := a.cfg.Client.Artifacts().Record(r.Context(), id)
	if err != nil {
		return err
	}
	if !access.From(r.Context()).Session(rec.Session) {
		return fmt.Errorf("%w: artifact %s is of the session %s", errForbidden, rec.ID, rec.Session)
	}
	if err := a.cfg.Client.Artifacts().Delete(r.Context(), id); err != nil {
		return err
	}
	answer(w, http.StatusOK, client.ReportJSON(artifacts.Report{Deleted: []artifacts.ID{id}}))
	return nil
}
