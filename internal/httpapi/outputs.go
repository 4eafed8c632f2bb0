package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"spool/internal/mapped"
	"spool/internal/view"
	"spool/pkg/client"
	"spool/pkg/events"
)

// The trailers, or headers, that say how a tool ended.
const (
	headerExit  = "Spool-Exit-Code"
	headerError = "Spool-Is-Error"
)

// outputOut is an output that was taken whole.
type outputOut struct {
	OK       bool   `json:"ok"`
	Output   string `json:"output"`
	Bytes    int64  `json:"bytes"` // that were sent
	N        int64  `json:"n"`     // of the item with the result
	Node     string `json:"node,omitempty"`
	Artifact string `json:"artifact_id,omitempty"`
}

// openOutputs lists what of a thread is open.
func (a *api) openOutputs(w http.ResponseWriter, r *http.Request, t events.Thread) error {
	open, err := a.cfg.Client.Thread(t).Outputs(r.Context())
	if err == nil && len(open) == 0 {
		_, err = a.cfg.Client.Thread(t).AwaitHead(r.Context())
	}
	if err != nil {
		return err
	}
	out := mapped.List(open, func(o client.OpenOutput) view.Output { return view.OfOutput(o, o.Tail) })
	return list(w, r, "outputs", out, "")
}

// putOutput takes what a tool prints, as it prints it: each chunk of the body is on its way to subscribers at once. The answer
// comes when the result is in the thread. A body that breaks off leaves the output open; what arrived is durable, and the output
// closes as aborted after its lease. So does one at once whose trailer is wrong.
func (a *api) putOutput(w http.ResponseWriter, r *http.Request, t events.Thread) (err error) {
	q := r.URL.Query()
	cfg := client.OutputConfig{
		ID: q.Get("id"), Tool: q.Get("tool"), Invocation: q.Get("invocation_id"), Cwd: q.Get("cwd"), Agent: q.Get("agent"), Run: q.Get("run"),
		User: q.Get("user"), Keep: isSet(r, "keep"),
	}
	if q.Has("input") {
		cfg.Input = []byte(q.Get("input"))
	}
	head, _, err := number(r, "head")
	columns, _, err2 := number(r, "columns")
	lease, _, err3 := number(r, "lease_ms")
	show, _, err4 := number(r, "show")
	_, err5 := outputEnd(r) // what the headers say of it; trailers come behind the body
	if err3 == nil {
		cfg.Lease, err3 = leaseOf(lease)
	}
	if err := errors.Join(err, err2, err3, err4, err5, checkInput(cfg.Input)); err != nil {
		return err
	}
	cfg.Head, cfg.Columns = int(min(head, 1<<20)), int(min(columns, 1<<20))
	cfg.Show = int(min(show, 1<<20))
	ctl := http.NewResponseController(w)
	cut := func() { _ = ctl.SetReadDeadline(time.Unix(1, 0)) }
	defer func() {
		if err != nil {
			cut() // net/http would wait for the rest
		}
	}()
	if err := a.cfg.Client.Thread(t).MayBegin(r.Context(), cfg); err != nil {
		return err
	}
	out, err := a.cfg.Client.Thread(t).Output(r.Context(), cfg)
	if errors.Is(err, events.ErrChunk) {
		return fmt.Errorf("%w: %w", ErrRequest, err)
	}
	if err != nil {
		return err
	}
	begun := time.Now()
	_ = ctl.SetReadDeadline(time.Time{})        // a tool may be silent for hours; a dead connection is found by the kernel
	defer context.AfterFunc(r.Context(), cut)() // a token that is revoked
	taken := begunBehind(r.Context(), out, cut)
	n, err := io.Copy(out, r.Body)
	if refused := taken(err == nil); refused != nil {
		return refusedOutput(refused)
	}
	if err != nil {
		return fmt.Errorf("%w: output %s broke off after %d bytes; it closes as aborted after its lease: %w", ErrRequest, out.ID(), n, err)
	}
	end, err := outputEnd(r)
	if err != nil { // behind the body: a lease would hold it open, and nobody can send the rest
		why := fmt.Errorf("%w: output %s has ended as aborted, with the %d bytes that came", err, out.ID(), n)
		return errors.Join(why, out.Abort(err.Error()), out.Wait(r.Context()))
	}
	end.DurationMS = time.Since(begun).Milliseconds()
	if err := out.Close(end); err != nil {
		return err
	}
	is, err := out.Result(r.Context())
	if err != nil {
		return err
	}
	answer(w, http.StatusCreated, outputOut{true, out.ID(), n, is.Item, is.Node, is.Artifact})
	return nil
}

// refusedOutput is why an output was not begun. One whose thread has another name now is refused, whenever that was found.
func refusedOutput(err error) error {
	if errors.As(err, new(*client.Renamed)) {
		return fmt.Errorf("%w: %w", client.ErrEnded, err)
	}
	return err
}

// begunBehind finds out, beside the body, whether an output is begun, and cuts the body if it is not. The function that it
// returns gives the verdict: it waits for it, or takes what there is.
func begunBehind(ctx context.Context, out *client.Output, cut func()) func(wait bool) error {
	ctx, cancel := context.WithCancel(ctx)
	verdict := make(chan error, 1)
	go func() {
		err := out.Begun(ctx)
		if err != nil && ctx.Err() == nil {
			cut()
		}
		verdict <- err
	}()
	return func(wait bool) error {
		defer cancel()
		if wait {
			return <-verdict
		}
		cancel()
		if err := <-verdict; !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	}
}

// outputEnd reads how the tool ended, from the trailers or the headers.
func outputEnd(r *http.Request) (end events.OutputEnd, err error) {
	code := cmp.Or(r.Trailer.Get(headerExit), r.Header.Get(headerExit), "0")
	if end.ExitCode, err = strconv.Atoi(code); err != nil {
		return end, fmt.Errorf("%w: %s %.50q: want a whole number", ErrRequest, headerExit, code)
	}
	failed := cmp.Or(r.Trailer.Get(headerError), r.Header.Get(headerError))
	if failed == "" {
		end.IsError = end.ExitCode != 0
		return end, nil
	}
	if end.IsError, err = strconv.ParseBool(failed); err != nil {
		return end, fmt.Errorf("%w: %s %.50q: want true or false", ErrRequest, headerError, failed)
	}
	return end, nil
}

// checkInput checks what the tool was called with, if it is told.
func checkInput(input []byte) error {
	if input != nil && !json.Valid(input) {
		return fmt.Errorf("%w: input is no JSON", ErrRequest)
	}
	return nil
}
