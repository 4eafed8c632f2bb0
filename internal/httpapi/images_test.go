package httpapi_test

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/events"
)

// A context, a whole item and a log have images in line; one whose blob is missing is named in a header, and all else is there
// (SPEC P9). Of a long log it is named behind the body.
func TestImagesOfAContext(t *testing.T) {
	ctx, cl, url := world(t)
	png := bytes.Repeat([]byte("\x89PNG"), 500)
	ref, gone := must.Get(cl.PutBlob(ctx, png))(t), casstore.SumBlob([]byte("never stored"))
	th := events.Thread{Session: "s", Name: events.MainThread}
	p := cl.Publisher(client.PublisherConfig{})
	must.Do(t, must.Get(p.Publish(ctx, client.Entry{Thread: th, Dialect: "omp",
		Body: []byte(`{"type":"message","id":"a1","parentId":null,` +
			`"message":{"role":"user","content":[{"type":"image","data":"` + ref.String() + `"},{"type":"image","data":"` +
			gone.String() + `"}]}}`)}))(t).Applied(ctx))
	for _, path := range []string{"context", "items/1?full=1", "logs/thread.log"} {
		status, h, body := get(t, url, "/v1/sessions/s/threads/main/"+path)
		if status != 200 || !strings.Contains(body, base64.StdEncoding.EncodeToString(png)) || strings.Contains(body,
			ref.String()) {
			t.Errorf("%s = %d %.1000s, want the picture in line", path, status, body)
		}
		if !strings.Contains(body, gone.String()) || one(h, "Spool-Missing") != gone.String() {
			t.Errorf("%s = %.1000s, Spool-Missing %q; want the ref of what is missing in both", path, body, one(h,
				"Spool-Missing"))
		}
	}
	for i := range 3 {
		must.Get(p.Publish(ctx, client.Entry{Thread: th, Dialect: "omp", Body: []byte(`{"type":"message","id":"b` + strconv.Itoa(i) +
			`","parentId":"a1","message":{"role":"user","content":[{"type":"text","text":"` + strings.Repeat("long ", 200_000) +
			`"},{"type":"image","data":"` + gone.String() + `"}]}}`)}))(t)
	}
	must.Do(t, cl.Thread(th).Settled(ctx))
	res := must.Get(http.Get(url + "/v1/sessions/s/threads/main/logs/thread.log"))(t)
	body := must.Get(io.ReadAll(res.Body))(t)
	must.Do(t, res.Body.Close())
	if n := len(res.Header.Values("Spool-Missing")) + len(res.Trailer.Values("Spool-Missing")); n != 4 || len(body) < 3_000_000 ||
		res.Trailer.Get("Spool-Missing") != gone.String() {
		t.Errorf("log of %d bytes: header %q, trailer %q; want four refs, the last behind the body", len(body), res.Header, res.Trailer)
	}
}
